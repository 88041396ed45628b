import { toJson } from "#cni/conf/conf.ts";
import type { AddRequest } from "#cni/plugin/request.ts";
import type { CallContext } from "#engine/call/deps.ts";
import type { Attached, PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import type { Pod } from "#engine/ports.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import {
  type DetachableAttachment,
  detachable,
  recordWithPlan,
} from "#engine/record/teardown-plan.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

interface RecordChanges extends Pick<AttachmentRecord, "teardown" | "pendingStatus"> {
  /** The attachments that stay in the record. @default all */
  readonly only?: readonly DetachableAttachment[];
}

/** The record of an ADD with its teardown plan, from the planned attachments and their progress. */
export class AddRecord {
  readonly sandbox: Omit<AttachmentRecord, "attachments">;
  readonly #ctx: CallContext;
  readonly #planned: readonly PlannedAttachment[];
  readonly #attachments: DetachableAttachment[];
  #syncFailure: Error | undefined;

  /** The record of a sandbox whose first network is about to be attached. */
  constructor(
    ctx: CallContext,
    { containerId, ifName, netns, conf }: AddRequest,
    planned: { readonly pod: Pod | undefined; readonly attachments: readonly PlannedAttachment[] },
  ) {
    const { pod, attachments } = planned;
    this.#ctx = ctx;
    this.#planned = attachments;
    this.sandbox = omitUndefined({
      containerId,
      ifName,
      netns,
      cniVersion: conf.cniVersion,
      pod: pod && { namespace: pod.namespace, name: pod.name, uid: pod.uid },
      createdAt: ctx.deps.now(),
      bootId: ctx.deps.bootId(),
    });
    this.#attachments = attachments.map((each, i) =>
      this.#detachable(each, recordedAttachment(each, i === 0 ? "attempted" : "planned")),
    );
  }

  /** The attachments for which a delegate may have been executed, in order. */
  get attempted(): DetachableAttachment[] {
    return this.#attachments.filter(({ attachment }) => attachment.state !== "planned");
  }

  /** Notes the progress of a network, by its position; nothing is written. */
  note(
    position: number,
    progress: Pick<RecordedAttachment, "state"> & Partial<RecordedAttachment>,
  ): void {
    const planned = this.#planned[position] as PlannedAttachment;
    const before = this.#attachments[position] as DetachableAttachment;
    const attachment = { ...before.attachment, ...progress };
    this.#attachments[position] =
      attachment.result === before.attachment.result
        ? { ...before, attachment }
        : this.#detachable(planned, attachment);
  }

  noteAttached(position: number, attached: Attached): void {
    const { raw: result, ignoredRequests, userSpaceInterfaces = [] } = attached;
    this.note(position, {
      state: "attached",
      result,
      ...(ignoredRequests.length === 0 ? {} : { ignoredRequests }),
      ...(userSpaceInterfaces.length === 0 ? {} : { userSpaceInterfaces }),
    });
  }

  /** Writes record and plan for the first time, as {@link updateAhead}. @throws CniError 5 */
  async create(): Promise<{ durable: Promise<void> }> {
    const { record, plan } = recordWithPlan(this.sandbox, this.#ahead());
    const { durable } = await this.#ctx.deps.records.create(record, plan);
    durable.catch((error: Error) => {
      this.#syncFailure = error;
    });
    return { durable };
  }

  /** @throws CniError 5 when the first sync has failed: a power loss may take the record */
  checkSync(): void {
    if (this.#syncFailure !== undefined) throw this.#syncFailure;
  }

  /**
   * Replaces record and plan; the next network is written as attempted, so that nothing has to be
   * written between two networks. After a crash a network that never ran may get a DEL, which CNI
   * allows.
   * @throws CniError 5
   */
  async updateAhead(): Promise<void> {
    const { record, plan } = recordWithPlan(this.sandbox, this.#ahead());
    await this.#ctx.deps.records.update(record, plan);
  }

  /** Replaces record and plan. @throws CniError 5 */
  async update({ only, ...changes }: RecordChanges = {}): Promise<void> {
    const kept = this.#attachments.filter((each) => only?.includes(each) ?? true);
    const { record, plan } = recordWithPlan({ ...this.sandbox, ...changes }, kept);
    await this.#ctx.deps.records.update(record, plan);
  }

  #ahead(): readonly DetachableAttachment[] {
    const next = this.#attachments.findIndex(({ attachment }) => attachment.state === "planned");
    return this.#attachments.map((each, i) =>
      i === next ? { ...each, attachment: { ...each.attachment, state: "attempted" } } : each,
    );
  }

  #detachable({ list }: PlannedAttachment, attachment: RecordedAttachment): DetachableAttachment {
    const timeoutMs = this.#ctx.config.delegateTimeoutMs;
    return detachable(this.sandbox, attachment, { list, timeoutMs });
  }
}

function recordedAttachment(
  planned: PlannedAttachment,
  state: "planned" | "attempted",
): RecordedAttachment {
  return omitUndefined({
    displayName: planned.displayName,
    isDefault: planned.isDefault,
    ifName: planned.ifName,
    state,
    conf: toJson(planned.list),
    cniArgs: planned.cniArgs,
    capabilityArgs: planned.capabilityArgs,
    searchPath: planned.searchPath,
    device: planned.device,
    defaultRoute: planned.selection?.defaultRoute,
  });
}
