import { asCniError, CniErrorCode } from "#cni/error.ts";
import { callContext, callTools } from "#engine/call/call-context.ts";
import { sandboxFields } from "#engine/call/call-log.ts";
import type { CallContext, EngineDeps } from "#engine/call/deps.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { notAttachedGraceMs, type PodState } from "#engine/check/not-attached.ts";
import { configForCall, type EngineConfig } from "#engine/config.ts";
import { publishAfterAnswer } from "#engine/network-status/pending-status.ts";
import { type EventReason, HostGoneError, type Pod } from "#engine/ports.ts";
import type { AttachmentRecord, RecordKey } from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import type { JsonObject } from "#lib/json.ts";
import { LruMap } from "#lib/lru-map.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { updateAddresses } from "./addresses.ts";
import { changeNetworks } from "./change-networks.ts";
import type { NetworkChanges } from "./changes.ts";
import { changesOf, defaultNetworkEdit, mayHotPlug, usableRecord } from "./desired-networks.ts";
import { findLostInterfaces } from "./heal.ts";
import { type SandboxHost, type SandboxHosts, SandboxUnavailableError } from "./sandbox-hosts.ts";
import type { HotPlugOperation } from "./steps.ts";

/** How an attempt ended to give a pod the networks of its annotation. */
export interface HotPlugOutcome {
  /**
   * `settled`: nothing to do until the annotation changes. `waiting`: for a change of the pod.
   * `busy`: another operation on its sandbox runs. `failed`: something is still to be done.
   */
  readonly state: "settled" | "waiting" | "busy" | "failed";
  readonly operations: readonly HotPlugOperation[];
  /** Why nothing was done, or not everything. */
  readonly problem?: string;
}

/** What was found in a running pod. */
export interface Inspection {
  /** How many networks lack an interface. */
  readonly lost: number;
  /** Whether the next attempt attaches some of them again. */
  readonly willHeal: boolean;
}

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
  /** The live pod; undefined when it is gone or replaced. @throws CniError 11 */
  readonly read: (pod: Pod) => Promise<PodState | undefined>;
}

/** The pods about whose last problem this process remembers that it was reported. */
const maxReported = 1000;
/** The reasons of events, by the part of the pod that they are about. */
const reasons = {
  "": "InterfaceAddRejected",
  default: "InterfaceAddRejected",
  lost: "InterfaceLost",
  record: "NotManaged",
} as const satisfies Record<string, EventReason>;
const settled: HotPlugOutcome = { state: "settled", operations: [] };
const waiting: HotPlugOutcome = { state: "waiting", operations: [] };
const busy: HotPlugOutcome = { state: "busy", operations: [] };
const intact: Inspection = { lost: 0, willHeal: false };
const failed: HotPlugOutcome = { state: "failed", operations: [] };
const notManaged =
  "the annotation was edited, but Plexus has no record that it attached this pod, so it changes " +
  "none of its networks; delete the pod, so that it starts anew with them (docs/user/hot-plug.md)";
const noAgent =
  "the annotation was edited, but no agent on this node may attach networks: " +
  "install `plexus agent --attach` (docs/user/hot-plug.md)";

/** Plugs and unplugs networks of running pods whose annotation was edited. */
export class HotPlug {
  readonly #deps: EngineDeps;
  readonly #locks: SandboxLocks;
  /** By the pod's UID: the last problem that became an event. */
  readonly #reported = new LruMap<string>(maxReported);
  /** By the UID of an edited pod without a record: since when it has been seen, by the clock. */
  readonly #unrecorded = new LruMap<number>(maxReported);

  constructor(deps: EngineDeps, locks: SandboxLocks) {
    this.#deps = deps;
    this.#locks = locks;
  }

  /**
   * Gives a pod the networks of its annotation, once; failures are recorded as events.
   * @throws CniError when the pod, its record or the configuration cannot be read
   */
  async reconcile(watched: Pod, options: HotPlugOptions): Promise<HotPlugOutcome> {
    if (!mayHotPlug(configForCall(this.#deps.config(), {}), watched.namespace)) return settled;
    const config = configForCall(this.#deps.config(), await options.conf());
    const record = await this.#recordOf(watched);
    const { hosts, refreshed } = options;
    const isCompared = record !== undefined && refreshed === undefined;
    if (isCompared && isUnchanged(config, record, watched)) return this.#settle(watched);
    // A starting pod, or one that Plexus did not attach.
    if (record === undefined && !options.isEdit) return waiting;
    const pod = await options.read(watched);
    if (pod === undefined || pod.isTerminating) return settled;
    if (pod.phase !== "Running") return waiting;
    if (pod.hostNetwork) return this.#reject(pod, "the pod uses the network of its node");
    if (record === undefined) return this.#reportUnrecorded(pod);
    this.#unrecorded.delete(pod.uid);
    try {
      const edit = defaultNetworkEdit(config, record, pod);
      if (edit !== undefined) this.#report(pod, edit, "default");
      if (isEmpty(changesOf(config, record, { ...pod, refreshed }))) return this.#settle(pod);
      return await this.#change(config, { pod, record, hosts, refreshed });
    } catch (error) {
      return this.#fail(pod, record, error);
    }
  }

  async #change(config: EngineConfig, sandbox: SandboxToOpen): Promise<HotPlugOutcome> {
    if (!sandbox.hosts.isAvailable()) throw new SandboxUnavailableError("noAgent", noAgent);
    const { pod, refreshed } = sandbox;
    const { rejected, isComplete, operations } = await this.#inSandbox(config, sandbox, (ctx, at) =>
      changeNetworks(ctx, { ...at, pod, locks: this.#locks, refreshed }),
    );
    const problem = rejected.map(({ error }) => error.message).join("; ") || undefined;
    const outcome = omitUndefined({ operations, problem });
    if (isComplete) return { ...this.#settle(pod), ...outcome };
    if (problem !== undefined) this.#report(pod, problem);
    return { ...failed, ...outcome };
  }

  /** What does not end by itself becomes an event, for people to act. */
  #fail(pod: Pod, record: AttachmentRecord, error: unknown): HotPlugOutcome {
    if (error instanceof HostGoneError) return failed;
    const why = error instanceof SandboxUnavailableError ? error.why : undefined;
    if (why === "busy") return busy;
    if (why === "gone") return waiting;
    const { code, message } = asCniError(error);
    const fields = { ...sandboxFields(record), err: error };
    this.#deps.logger.warn(fields, "cannot change the networks of a running pod");
    const isTemporary = code === CniErrorCode.TryAgainLater && why !== "noAgent";
    if (!isTemporary) this.#report(pod, message);
    const isInvalid = code === CniErrorCode.InvalidRequest;
    return { ...(isInvalid ? settled : failed), problem: message };
  }

  /** Runs a step with the shim's and the engine's lock of a sandbox. */
  async #inSandbox<T>(
    config: EngineConfig,
    { record, hosts }: Pick<SandboxToOpen, "record" | "hosts">,
    step: (
      ctx: CallContext,
      at: Pick<SandboxHost, "links" | "path"> & { key: RecordKey },
    ) => Promise<T>,
  ): Promise<T> {
    const { containerId, ifName, netns } = record;
    await using session = await hosts.open({ containerId, ifName, netns });
    using _lock = await this.#locks.acquire(containerId);
    const { host, links, path } = session;
    const tools = callTools(this.#deps, host);
    // No runtime waits for an answer.
    tools.noteAnswered();
    const logger = this.#deps.logger.child(sandboxFields(record));
    const call = { config, logger, netnsState: "ok", links } as const;
    const ctx = callContext(this.#deps, tools, call);
    try {
      return await step(ctx, { key: { containerId, ifName }, links, path });
    } finally {
      tools.delegates.recordMetrics(this.#deps.metrics);
    }
  }

  /**
   * Looks for interfaces that have disappeared from a running pod, which become an event, and for
   * addresses that have changed, which its status then shows.
   * @returns how many networks lack theirs, and whether {@link reconcile} is to attach some again
   * @throws CniError when the record or the configuration cannot be read, or the sandbox is in use;
   *   HostGoneError when the agent has gone
   */
  async inspect(
    pod: Pod,
    { hosts, conf }: Pick<HotPlugOptions, "hosts" | "conf">,
  ): Promise<Inspection> {
    const config = configForCall(this.#deps.config(), await conf());
    const record = await this.#recordOf(pod);
    const isWanted = config.heal !== false || config.watchAddresses;
    if (!isWanted || record === undefined || !hosts.isAvailable()) return intact;
    return this.#inSandbox(config, { record, hosts }, async (ctx, { key, links }) => {
      if (config.watchAddresses) await this.#updateAddresses(ctx, key, pod);
      const stored = await this.#usable(key);
      if (stored === undefined || config.heal === false) return intact;
      const { problems, willHeal } = await findLostInterfaces(ctx, stored, links);
      if (problems.length > 0) this.#report(pod, problems.join("; "), "lost");
      else this.#reported.delete(`${pod.uid}lost`);
      return { lost: problems.length, willHeal };
    });
  }

  async #updateAddresses(ctx: CallContext, key: RecordKey, pod: Pod): Promise<void> {
    const stored = await this.#usable(key);
    const status = stored && (await updateAddresses(ctx, stored));
    // It takes the lock, which the caller holds.
    void publishAfterAnswer(ctx, { ...key, pod }, { status, locks: this.#locks });
  }

  async #usable(key: RecordKey): Promise<StoredRecord | undefined> {
    const stored = await this.#deps.records.load(key);
    return stored !== undefined && usableRecord(stored.record, this.#deps) ? stored : undefined;
  }

  /** The record of the pod's present sandbox, if it is attached. */
  async #recordOf(pod: Pod): Promise<AttachmentRecord | undefined> {
    const { records } = this.#deps;
    const keys = await records.keysOf(pod);
    const stored = await Promise.all(keys.map((key) => records.load(key)));
    return stored
      .flatMap((each) => each?.record ?? [])
      .filter((record) => record.pod?.uid === pod.uid && usableRecord(record, this.#deps))
      .toSorted((a, b) => a.createdAt.localeCompare(b.createdAt))
      .at(-1);
  }

  /** A running pod has no record while its sandbox is made anew, so the event comes later. */
  #reportUnrecorded(pod: Pod): HotPlugOutcome {
    const now = this.#deps.clock();
    if (now - this.#unrecorded.getOrMake(pod.uid, () => now) < notAttachedGraceMs) return failed;
    this.#report(pod, notManaged, "record");
    return waiting;
  }

  #settle({ uid }: Pod): HotPlugOutcome {
    this.#reported.delete(uid);
    return settled;
  }

  #reject(pod: Pod, message: string): HotPlugOutcome {
    this.#report(pod, message);
    return settled;
  }

  /** Emits an event, unless it is the same as the last one about this part of the pod. */
  #report(pod: Pod, message: string, part: keyof typeof reasons = ""): void {
    const key = `${pod.uid}${part}`;
    if (this.#reported.peek(key) === message) return;
    this.#reported.set(key, message);
    this.#deps.events.record(pod, { type: "Warning", reason: reasons[part], message });
  }
}

interface SandboxToOpen extends Pick<HotPlugOptions, "hosts" | "refreshed"> {
  readonly pod: Pod;
  readonly record: AttachmentRecord;
}

/** False for an annotation that cannot be read. */
function isUnchanged(config: EngineConfig, record: AttachmentRecord, pod: Pod): boolean {
  try {
    if (defaultNetworkEdit(config, record, pod) !== undefined) return false;
    return isEmpty(changesOf(config, record, pod));
  } catch {
    return false;
  }
}

function isEmpty({ additions, removals }: NetworkChanges): boolean {
  return additions.length + removals.length === 0;
}
