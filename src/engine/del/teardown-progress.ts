import { isDeepStrictEqual } from "node:util";
import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import type { Undetached } from "./detach.ts";
import { emitLeftover, failedTeardown } from "./failed-teardown.ts";
import { type DetachableAttachment, recordWithPlan } from "./planned-dels.ts";

/** Keeps record and plan up to date, so that an interrupted teardown is seen and retried. */
export class TeardownProgress {
  readonly #ctx: CallContext;
  /** Whether another process may change the record. */
  readonly #mayChange: boolean;
  /** As the DEL found it. */
  readonly #before: AttachmentRecord;
  #record: AttachmentRecord;
  #remaining: readonly DetachableAttachment[];
  /** Writes in progress, or about to start. */
  #writing: Promise<void> = Promise.resolve();

  /** @param left the attachments to detach */
  constructor(
    ctx: CallContext,
    left: { record: AttachmentRecord; owed: readonly DetachableAttachment[] },
    mayChange: boolean,
  ) {
    this.#ctx = ctx;
    this.#before = left.record;
    this.#record = left.record;
    this.#remaining = left.owed;
    this.#mayChange = mayChange;
  }

  /** Writes the record during the next DEL (repeating one is harmless), if one follows. */
  detached(attachment: DetachableAttachment): void {
    this.#remaining = this.#remaining.filter((each) => each !== attachment);
    if (this.#remaining.length > 0) this.#writing = this.#writing.then(() => this.#writeSoon());
  }

  /** Records why attachments could not be detached, with what is left of them, and emits an event. */
  async fail(error: CniError, failures: readonly Undetached[]): Promise<void> {
    await this.#writing;
    this.#remaining = failures.map(({ left }) => left);
    await this.#write(error);
    emitLeftover(this.#ctx, this.#record, error.message);
  }

  /** Removes the record: all is detached. @throws CniError 11 when another process changed it */
  async finish(): Promise<void> {
    await this.#writing;
    await this.#checkUnchanged();
    await this.#ctx.deps.records.finish(this.#record);
  }

  async #writeSoon(): Promise<void> {
    await nextTurn();
    if (this.#remaining.length > 0) await this.#write();
  }

  /** Never rejects: without the write, attachments are detached again. */
  async #write(error?: CniError): Promise<void> {
    const { deps, logger } = this.#ctx;
    const teardown = failedTeardown(deps, this.#before, error);
    try {
      await this.#checkUnchanged();
      const { record, plan } = recordWithPlan({ ...this.#record, teardown }, this.#remaining);
      await deps.records.update(record, plan);
      this.#record = record;
    } catch (error) {
      logger.warn({ err: error }, "cannot record the progress of the teardown");
    }
  }

  async #checkUnchanged(): Promise<void> {
    if (!this.#mayChange) return;
    const stored = await this.#ctx.deps.records.load(this.#record);
    if (isDeepStrictEqual(stored?.record, this.#record)) return;
    const message = "another process changed the attachment record while it was being detached";
    throw new CniError("TryAgainLater", message);
  }
}
