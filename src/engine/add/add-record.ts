import { type NetConfList, toJson } from "#cni/conf/conf.ts";
import type { AddRequest } from "#cni/plugin/request.ts";
import type { Result } from "#cni/result/result.ts";
import { delCalls } from "#cni/runtime/chain.ts";
import { runtimeConf } from "#cni/runtime/delegate-calls.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import {
  type DetachableAttachment,
  type RecordedSandbox,
  recordWithPlan,
  withRelease,
} from "#engine/del/planned-dels.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { selectionElement } from "#npwg/selection/network-selection.ts";
import type { IgnoredRequest } from "#npwg/served-requests.ts";
import { type KernelInterfaces, missingInterfaces } from "./kernel-interfaces.ts";

type RecordChanges = Pick<AttachmentRecord, "teardown" | "pendingStatus">;

/** An attachment with the result of its ADD. */
export interface Attached {
  readonly planned: PlannedAttachment;
  readonly result: Result;
  /** The result as recorded: the last plugin's, in the network's version, unknown fields kept. */
  readonly raw: JsonObject;
  readonly ignoredRequests: readonly IgnoredRequest[];
}

/** The sandbox of an ADD. */
export function sandboxToAdd(
  { deps, netnsProcess }: CallContext,
  { containerId, ifName, netns, conf }: AddRequest,
  pod: Pod | undefined,
): RecordedSandbox {
  return omitUndefined({
    containerId,
    ifName,
    netns,
    netnsProcess,
    listName: conf.name,
    cniVersion: conf.cniVersion,
    pod: pod && { namespace: pod.namespace, name: pod.name, uid: pod.uid },
    createdAt: deps.now(),
    clockMs: Math.floor(deps.clock()),
    bootId: deps.bootId(),
  });
}

/**
 * The record of an ADD with its teardown plan, from the planned attachments and their progress. In
 * a running sandbox, additional networks are attached.
 */
export class AddRecord {
  sandbox: RecordedSandbox;
  readonly isRunning: boolean;
  readonly #ctx: CallContext;
  readonly #earlier: readonly DetachableAttachment[];
  #attachments: readonly DetachableAttachment[];

  /** The record of a sandbox to which the first of these networks is about to be attached. */
  constructor(
    ctx: CallContext,
    sandbox: RecordedSandbox,
    networks: {
      readonly attachments: readonly PlannedAttachment[];
      /** What a running sandbox has already. @default the sandbox is new */
      readonly earlier?: readonly DetachableAttachment[];
    },
  ) {
    const { attachments, earlier } = networks;
    this.#ctx = ctx;
    this.isRunning = earlier !== undefined;
    this.sandbox = this.isRunning ? { ...sandbox, addEnded: true } : sandbox;
    this.#earlier = earlier ?? [];
    this.#attachments = attachments.map((each, i) =>
      this.#detachable(each.list, recordedAttachment(each, i === 0 ? "attempted" : "planned")),
    );
  }

  /** The sandbox with all its attachments and their progress, in order. */
  get current(): AttachmentRecord {
    const all = [...this.#earlier, ...this.#attachments];
    return { ...this.sandbox, attachments: all.map(({ attachment }) => attachment) };
  }

  /** The attachments for which a delegate may have been executed, in order. */
  get attempted(): DetachableAttachment[] {
    return this.#attachments.filter(({ attachment }) => attachment.state !== "planned");
  }

  /**
   * Notes the progress of a network; nothing is written.
   * @param partialResult the last result in its chain, for its DELs: the record has no result of a
   *   network that is not attached
   */
  note(
    { ifName, list }: PlannedAttachment,
    progress: { readonly [K in keyof RecordedAttachment]?: RecordedAttachment[K] | undefined },
    partialResult?: JsonObject,
  ): void {
    const before = this.#attachments.find(
      ({ attachment }) => attachment.ifName === ifName,
    ) as DetachableAttachment;
    const attachment = omitUndefined({ ...before.attachment, ...progress }) as RecordedAttachment;
    const isSame = partialResult === undefined && attachment.result === before.attachment.result;
    const { dels } = isSame ? before : this.#detachable(list, attachment, partialResult);
    this.#attachments = this.#attachments.map((each) =>
      each === before ? { attachment, dels } : each,
    );
  }

  /**
   * Notes that networks are attached.
   * @param kernel the interfaces that the sandbox has then. @default they are not known
   */
  noteAttached(all: readonly Attached[], kernel?: KernelInterfaces): void {
    for (const { planned, raw, result, ignoredRequests } of all)
      this.note(planned, {
        state: "attached",
        result: raw,
        ignoredRequests: nonEmpty(ignoredRequests),
        ...(kernel && { userSpaceInterfaces: nonEmpty(missingInterfaces(result, kernel)) }),
      });
  }

  /** Notes the destinations of the routes that the sandbox keeps to the cluster. */
  noteClusterRoutes(kept: readonly string[]): void {
    this.sandbox = { ...this.sandbox, clusterRoutes: kept };
  }

  /** Keeps only what could not be detached again, as it says. */
  keepOnly(left: readonly DetachableAttachment[]): void {
    this.#attachments = left;
  }

  /** Writes record and plan for the first time, as {@link updateAhead}. @throws CniError 5 */
  async create(): Promise<{ durable: Promise<void> }> {
    const { record, plan } = this.#withPlan(this.sandbox, this.#ahead());
    return this.#ctx.deps.records.create(record, plan);
  }

  /**
   * Replaces record and plan; the next network is written as attempted, so that nothing has to be
   * written between two networks. After a crash a network that never ran may get a DEL, which CNI
   * allows.
   * @throws CniError 5
   */
  async updateAhead(): Promise<void> {
    const { record, plan } = this.#withPlan(this.sandbox, this.#ahead());
    await this.#ctx.deps.records.update(record, plan);
  }

  /** Replaces record and plan. @throws CniError 5 */
  async update(changes: RecordChanges = {}): Promise<void> {
    const { record, plan } = this.#withPlan({ ...this.sandbox, ...changes }, this.#attachments);
    await this.#ctx.deps.records.update(record, plan);
  }

  #withPlan(sandbox: RecordedSandbox, attachments: readonly DetachableAttachment[]): StoredRecord {
    return recordWithPlan(sandbox, [...this.#earlier, ...attachments]);
  }

  #ahead(): readonly DetachableAttachment[] {
    const next = this.#attachments.findIndex(({ attachment }) => attachment.state === "planned");
    return this.#attachments.map((each, i) =>
      i === next ? { ...each, attachment: { ...each.attachment, state: "attempted" } } : each,
    );
  }

  /**
   * An attachment with its DELs. While it has no result, they get the last one of a plugin: those like
   * `firewall` find only by it what they have to remove.
   */
  #detachable(
    list: NetConfList,
    attachment: RecordedAttachment,
    partialResult?: JsonObject,
  ): DetachableAttachment {
    const rt = runtimeConf(this.sandbox, attachment, this.#ctx.config.delegateTimeoutMs);
    const dels = delCalls(list, rt, attachment.result ?? partialResult);
    return { attachment, dels: dels.flatMap(withRelease) };
  }
}

function nonEmpty<T>(list: readonly T[] = []): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}

function recordedAttachment(
  planned: PlannedAttachment,
  state: "planned" | "attempted",
): RecordedAttachment {
  const { selection, isDefault } = planned;
  const isRequested = selection !== undefined && !isDefault;
  return omitUndefined({
    displayName: planned.displayName,
    isDefault,
    ifName: planned.ifName,
    state,
    conf: toJson(planned.list),
    cniArgs: planned.cniArgs,
    capabilityArgs: planned.capabilityArgs,
    searchPath: planned.searchPath,
    device: planned.device,
    deviceCount: planned.deviceCount,
    definition: isRequested ? planned.definition : undefined,
    defaultRoute: selection?.defaultRoute,
    selection: isRequested ? selectionElement(selection) : undefined,
  });
}
