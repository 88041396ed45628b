import { isDeepStrictEqual } from "node:util";
import { CniError, CniErrorCode, type Reason } from "#cni/error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { type DetachableAttachment, recordWithPlan } from "#engine/record/teardown-plan.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { emitLeftover, failedTeardown } from "./failed-teardown.ts";

const lastErrorMax = 1024;

/** The error in the record while its other attachments are being detached. */
const interrupted = { message: "the last DEL was interrupted", reason: "TryAgainLater" } as const;

/** Keeps record and plan up to date, so that an interrupted teardown is seen and retried. */
export class TeardownProgress {
  readonly #ctx: CallContext;
  readonly #mayChange: boolean;
  #failure: ReturnType<typeof failedTeardown>;
  #record: AttachmentRecord;
  #remaining: readonly DetachableAttachment[];
  /** Writes in progress, or about to start. */
  #writing: Promise<void> = Promise.resolve();

  constructor(
    ctx: CallContext,
    options: {
      readonly record: AttachmentRecord;
      readonly owed: readonly DetachableAttachment[];
      /** Whether another process may change the record. */
      readonly mayChange: boolean;
    },
  ) {
    this.#ctx = ctx;
    this.#record = options.record;
    this.#remaining = options.owed;
    this.#mayChange = options.mayChange;
    this.#failure = failedTeardown(ctx.deps, options.record, interrupted);
  }

  /** How long the DELs of the record have failed, in milliseconds. */
  get failingMs(): number {
    return this.#ctx.deps.clock() - this.#failure.since.clockMs;
  }

  /** Notes that a plugin is missing. @returns for how long the record's DELs have found that, in ms */
  noteMissing(): number {
    const { clock, bootId } = this.#ctx.deps;
    const now = { bootId: bootId(), clockMs: Math.floor(clock()) };
    const { missingSince = now } = this.#failure;
    this.#failure = { ...this.#failure, missingSince };
    return clock() - missingSince.clockMs;
  }

  /** Writes the record during the next DEL (repeating one is harmless), if one follows. */
  detached(attachment: DetachableAttachment): void {
    this.#remaining = this.#remaining.filter((each) => each !== attachment);
    if (this.#remaining.length > 0) this.#writing = this.#writing.then(() => this.#writeSoon());
  }

  /** Records why the remaining attachments could not be detached, and emits an event. */
  async fail(error: CniError): Promise<void> {
    await this.#writing;
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
    if (this.#remaining.length > 0) await this.#write(interrupted);
  }

  /** Never rejects: without the write, attachments are detached again. */
  async #write({
    message,
    reason,
  }: {
    message: string;
    reason?: Reason | undefined;
  }): Promise<void> {
    const { deps, logger } = this.#ctx;
    const lastError = message.slice(0, lastErrorMax);
    const teardown = omitUndefined({ ...this.#failure, failedAt: deps.now(), lastError, reason });
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
    throw new CniError(
      CniErrorCode.TryAgainLater,
      "another process changed the attachment record while it was being detached",
    );
  }
}
