import { contextWithoutCall } from "#engine/call/call-context.ts";
import type { CallContext, EngineDeps } from "#engine/call/deps.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import type { PublishOutcome } from "#engine/ports.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { type PendingStatusSelection, pay, recordsWithPendingStatus } from "./pending-status.ts";

/** Which owed statuses are published, and how long. */
export interface PaymentOptions extends PendingStatusSelection {
  /** Publishes one after the other, until it fires or the API does not accept one. */
  readonly signal?: AbortSignal;
}

/** Publishes what the records of the node owe, for later than the calls that could not. */
export class PendingPayments {
  readonly #deps: EngineDeps;
  readonly #locks: SandboxLocks;
  /** By record and status. */
  readonly #running = new Map<string, Promise<PublishOutcome>>();

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
    { signal, ...which }: PaymentOptions,
  ): Promise<void> {
    const ctx = contextWithoutCall(this.#deps, {});
    const begun: Promise<PublishOutcome>[] = [];
    for (const record of await recordsWithPendingStatus(this.#deps, which)) {
      if (signal?.aborted === true) return;
      if (this.#locks.isInUse(record.containerId) || (await isInUse(record.containerId))) continue;
      const payment = this.#pay(ctx, record, isInUse);
      begun.push(payment);
      if (signal !== undefined && (await payment) === "pending") return;
    }
    await Promise.all(begun);
  }

  /** Two payments of one status at a time would be one too many. */
  #pay(
    ctx: CallContext,
    record: AttachmentRecord,
    isInUse: (containerId: string) => Promise<boolean>,
  ): Promise<PublishOutcome> {
    const key = JSON.stringify([record.containerId, record.ifName, record.pendingStatus]);
    const running = this.#running.get(key);
    if (running !== undefined) return running;
    const payment = pay(ctx, record, { locks: this.#locks, isInUse })
      .catch((err: unknown): PublishOutcome => {
        ctx.logger.warn({ err }, "cannot publish the network-status that a record owes");
        return "pending";
      })
      .finally(() => this.#running.delete(key));
    this.#running.set(key, payment);
    return payment;
  }
}
