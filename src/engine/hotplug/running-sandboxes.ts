import { CniError } from "#cni/error.ts";
import type { PluginRequest } from "#cni/plugin/request.ts";
import {
  type CallContext,
  callContext,
  callTools,
  sandboxFields,
} from "#engine/call/call-context.ts";
import type { PodFindings } from "#engine/call/pod-findings.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import type { EngineConfig } from "#engine/config.ts";
import { isNetnsOf } from "#engine/del/chain/netns.ts";
import { latestSandbox } from "#engine/network-status/latest-sandbox.ts";
import type { Pod, PodState } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import {
  type SandboxHost,
  type SandboxHosts,
  SandboxUnavailableError,
} from "#engine/ports/sandbox-hosts.ts";
import {
  type AttachmentRecord,
  type RecordedAttachment,
  usableRecord,
} from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { JsonObject } from "#lib/json.ts";
import { LruMap } from "#lib/lru-map.ts";
import { wrongMac } from "./reports/conditions.ts";

/** What an attempt needs beside the engine's own dependencies. */
export interface HotPlugOptions {
  /** Connections to `plexus agent`. */
  readonly hosts: SandboxHosts;
  /** Whether the annotation is known to have changed while the pod exists. */
  readonly isEdit: boolean;
  /** An interface to plug anew with its present definition. @default none */
  readonly refreshed?: string | undefined;
  /** The conf with which the container runtime calls Plexus; empty when it is not known. */
  readonly conf: () => Promise<JsonObject>;
  /** Whether this process ends: its successor publishes what the record keeps. @default never */
  readonly isStopping?: (() => boolean) | undefined;
  /** The live pod; undefined when it is gone or replaced. @throws CniError 11 */
  readonly read: (pod: Pod) => Promise<PodState | undefined>;
}

/** A running sandbox whose shim lock the caller holds, as the engine's. */
export interface LockedSandbox
  extends Pick<SandboxHost, "links" | "path">,
    Pick<HotPlugOptions, "refreshed" | "isStopping"> {
  readonly ctx: CallContext;
  readonly pod: Pod;
  readonly key: RecordKey;
  readonly netns: string;
  /** The CNI_PATH of the runtime's last call, which its DEL will search after the recorded one. */
  readonly runtimePath: readonly string[];
}

/** A sandbox to work in, and the connections to the agent. */
export interface SandboxToRun {
  readonly pod: Pod;
  readonly record: AttachmentRecord;
  readonly hosts: SandboxHosts;
  /** Whether nothing in it is changed. @default false */
  readonly isInspection?: boolean | undefined;
}

/** Lists of runtimes whose CNI_PATH is remembered. */
const maxLists = 16;

/** The attached sandboxes of this node, outside of calls of the runtime. */
export class RunningSandboxes {
  readonly deps: EngineDeps;
  readonly locks: SandboxLocks;
  readonly findings: PodFindings;
  /** By the list's name: the CNI_PATH of the last call for pods. */
  readonly #paths = new LruMap<readonly string[]>(maxLists);

  constructor(deps: EngineDeps, locks: SandboxLocks, findings: PodFindings) {
    this.deps = deps;
    this.locks = locks;
    this.findings = findings;
  }

  /** Notes where a runtime of pods looks for plugins: an administrator may have moved them. */
  noteRuntime({ conf, path }: Pick<PluginRequest, "conf" | "path">): void {
    this.#paths.set(conf.name, path);
  }

  /** The record of the pod's latest sandbox, if that is attached. @throws CniError 5 */
  async recordOf(pod: Pod): Promise<AttachmentRecord | undefined> {
    const latest = await latestSandbox(this.deps, pod);
    return latest !== undefined && usableRecord(latest) ? latest : undefined;
  }

  /**
   * Runs a step with the shim's and the engine's lock of a sandbox.
   * @throws SandboxUnavailableError, HostGoneError when the agent has gone, and what the step throws
   */
  async run<T>(
    config: EngineConfig,
    { pod, record, hosts, isInspection }: SandboxToRun,
    step: (at: LockedSandbox) => Promise<T>,
  ): Promise<T> {
    const { containerId, ifName, netns, listName = "" } = record;
    await using session = await hosts.open({ containerId, ifName, netns, isInspection });
    using _lock = await this.locks.acquire(containerId);
    const { host, links, path } = session;
    const tools = callTools(this.deps, host);
    // No runtime waits for an answer.
    tools.noteAnswered();
    const logger = this.deps.logger.child(sandboxFields(record));
    const call = { config, logger, netnsState: "ok", links } as const;
    const ctx = callContext(this.deps, tools, call);
    try {
      let isMacWrong = false;
      const onWrongMac = (): void => {
        isMacWrong = true;
      };
      const isOwn = await isNetnsOf(ctx, record, onWrongMac);
      this.findings.state(pod, "namespace", isMacWrong ? [wrongMac] : []);
      if (!isOwn) {
        const message = `nothing proves that ${netns} still is the network namespace of this sandbox`;
        if (isMacWrong) throw new CniError("PluginOutput", `${message}; delete the pod`);
        const why = "another record names it, too, or cannot be used: see kubectl plexus doctor";
        throw new SandboxUnavailableError("gone", `${message}: ${why}`);
      }
      const runtimePath = this.#paths.peek(listName) ?? [];
      const key = { containerId, ifName };
      return await step({ ctx, pod, key, netns, links, path, runtimePath });
    } finally {
      tools.delegates.recordMetrics(this.deps.metrics);
    }
  }
}

/** A record, unless its ADD has not ended or its DEL has begun. @throws CniError 5, 6 */
export async function loadUsable(
  { records }: EngineDeps,
  key: RecordKey,
): Promise<StoredRecord | undefined> {
  const stored = await records.load(key);
  return stored !== undefined && usableRecord(stored.record) ? stored : undefined;
}

/**
 * Records that attachments are about to be removed: one that was detached, but not yet taken from
 * the record, must not count as attached when plexusd starts again. Their DELs stay the same.
 * @throws CniError 5
 */
export async function markDetaching(
  { deps }: CallContext,
  { record, plan }: StoredRecord,
  removals: readonly RecordedAttachment[],
): Promise<void> {
  const attachments = record.attachments.map((each) => {
    const isMarked = removals.includes(each) && each.state === "attached";
    return isMarked ? { ...each, state: "detaching" as const } : each;
  });
  await deps.records.update({ ...record, addEnded: true, attachments }, plan);
}
