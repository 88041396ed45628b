import { type CallContext, contextWithoutCall } from "#engine/call/call-context.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { sampleMax } from "#engine/ports/records.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { withoutPause } from "./status-pause.ts";
import { payAfterAnswer } from "./status-writer.ts";

/** Which owed statuses are published, and how long. */
export interface PaymentOptions {
  /** A container whose record comes before all others. */
  readonly first?: string;
  /** The sandbox of an ADD that has its answer: its status comes before all others. */
  readonly own?: RecordKey | undefined;
  /** Read only some of the node's other records, or none. @default all */
  readonly others?: "some" | "none";
  /** Publishes one after the other, until it fires or the API does not accept one. */
  readonly signal?: AbortSignal;
}

/** Publishes what the records of the node owe, for later than the calls that could not. */
export class PendingPayments {
  readonly #deps: EngineDeps;
  readonly #locks: SandboxLocks;
  /** By record and status: whether nothing is owed any more. */
  readonly #running = new Map<string, Promise<boolean>>();

  constructor(deps: EngineDeps, locks: SandboxLocks) {
    this.#deps = deps;
    this.#locks = locks;
  }

  /**
   * Publishes all, except of containers that `isInUse`. Resolves when none of them is sent any more:
   * a rejected one can take hours.
   * @throws CniError when the records cannot be listed
   */
  async payAll(
    isInUse: (containerId: string) => Promise<boolean>,
    { signal, ...which }: PaymentOptions = {},
  ): Promise<void> {
    const ctx = contextWithoutCall(this.#deps, {});
    const begun: Promise<boolean>[] = [];
    for (const record of await this.#owing(which)) {
      if (signal?.aborted === true) return;
      const { containerId } = record;
      // The shim of an answered call may not have ended yet.
      const isOwn = containerId === which.own?.containerId;
      if (!isOwn && (this.#locks.isInUse(containerId) || (await isInUse(containerId)))) continue;
      const payment = this.#pay(ctx, record, isInUse);
      begun.push(payment);
      if (signal !== undefined && !(await payment)) return;
    }
    await Promise.all(begun);
  }

  /** Whose status can be sent now, in random rotation: a rejected one must not block others. */
  async #owing({ first, own, others }: PaymentOptions): Promise<AttachmentRecord[]> {
    const ofCall = own && (await this.#deps.records.load(own))?.record;
    const { records } =
      others === "none"
        ? { records: [] }
        : await this.#deps.records.list(
            others === "some" ? { atMost: sampleMax } : { containing: '"pendingStatus"' },
          );
    const rest = records.filter(({ containerId }) => containerId !== own?.containerId);
    const owes = ({ pendingStatus }: AttachmentRecord): boolean => pendingStatus !== undefined;
    const owing = withoutPause(this.#deps, rest.filter(owes));
    const start = Math.floor(Math.random() * owing.length);
    const rotated = [...owing.slice(start), ...owing.slice(0, start)];
    const isFirst = ({ containerId }: AttachmentRecord): boolean => containerId === first;
    const mine = ofCall === undefined ? [] : [ofCall].filter(owes);
    return [...mine, ...rotated.filter(isFirst), ...rotated.filter((each) => !isFirst(each))];
  }

  /** Two payments of one status at a time would be one too many. */
  #pay(
    ctx: CallContext,
    record: AttachmentRecord,
    isInUse: (containerId: string) => Promise<boolean>,
  ): Promise<boolean> {
    const key = JSON.stringify([record.containerId, record.ifName, record.pendingStatus]);
    const running = this.#running.get(key);
    if (running !== undefined) return running;
    const payment = payAfterAnswer(ctx, record, { locks: this.#locks, isInUse }).finally(() =>
      this.#running.delete(key),
    );
    this.#running.set(key, payment);
    return payment;
  }
}
