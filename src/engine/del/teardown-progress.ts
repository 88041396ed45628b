import { isDeepStrictEqual } from "node:util";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { CallContext, EngineDeps } from "#engine/call/deps.ts";
import { reportLeftover } from "#engine/leftovers/report-leftover.ts";
import type { AttachmentRecord, BootTime, RecordedAttachment } from "#engine/record/record.ts";
import {
  type DetachableAttachment,
  detachables,
  recordWithPlan,
} from "#engine/record/teardown-plan.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";

/** The longest error that a record keeps. */
const lastErrorMax = 1024;

/** What a record says while its further attachments are being detached. */
const interrupted = "the last DEL did not come to its end";

/** The first failure of a teardown, in the record's form: an earlier one of this boot, else now. */
export function failingSince(
  { clock, bootId }: Pick<EngineDeps, "clock" | "bootId">,
  { teardown }: Pick<AttachmentRecord, "teardown">,
): BootTime {
  const now = { bootId: bootId(), clockMs: Math.floor(clock()) };
  const since = teardown?.since;
  return since !== undefined && now.bootId !== "" && since.bootId === now.bootId ? since : now;
}

/** For how long the DELs of a record have failed, in milliseconds. */
export function failingFor(
  deps: Pick<EngineDeps, "clock" | "bootId">,
  record: AttachmentRecord,
): number {
  const { clockMs } = failingSince(deps, record);
  return deps.clock() - clockMs;
}

/**
 * Keeps the record and the plan of a sandbox up to date while its attachments are detached, so that
 * nothing is detached twice, and a teardown that failed or was interrupted can be seen and repeated.
 */
export class TeardownProgress {
  readonly #ctx: CallContext;
  readonly #withoutLock: boolean;
  readonly #attempts: number;
  readonly #firstFailedAt: string;
  readonly #since: BootTime;
  #record: AttachmentRecord;
  #remaining: readonly RecordedAttachment[];
  #owed: readonly DetachableAttachment[] | undefined;
  /** The writes that are under way, or about to begin. */
  #writing: Promise<void> = Promise.resolve();

  constructor(
    ctx: CallContext,
    options: {
      readonly record: AttachmentRecord;
      /** Those of its attachments that have to be detached. */
      readonly owed: readonly RecordedAttachment[];
      /** Another process may change the record. */
      readonly withoutLock: boolean;
    },
  ) {
    this.#ctx = ctx;
    this.#record = options.record;
    this.#remaining = options.owed;
    this.#withoutLock = options.withoutLock;
    const { teardown } = options.record;
    this.#firstFailedAt = teardown?.firstFailedAt ?? ctx.deps.now();
    this.#since = failingSince(ctx.deps, options.record);
    this.#attempts = (teardown?.attempts ?? 0) + 1;
  }

  /**
   * Takes an attachment out of the record, while the next one is being detached: a DEL that is repeated does
   * no harm. After the last one the record is finished.
   */
  detached(attachment: RecordedAttachment): void {
    this.#remaining = this.#remaining.filter((each) => each !== attachment);
    if (this.#remaining.length > 0) this.#writing = this.#writing.then(() => this.#writeSoon());
  }

  /** Records why the attachments that remain could not be detached, and emits an event. */
  async fail(error: CniError): Promise<void> {
    await this.#writing;
    await this.#write(error.message.slice(0, lastErrorMax));
    reportLeftover(this.#ctx, this.#record, error.message);
  }

  /** Forgets the record: everything is detached. @throws CniError 11 when another process changed it */
  async finish(): Promise<void> {
    await this.#writing;
    await this.#checkUnchanged();
    await this.#ctx.deps.records.finish(this.#record);
  }

  async #writeSoon(): Promise<void> {
    await nextTurn();
    if (this.#remaining.length > 0) await this.#write(interrupted);
  }

  /** Never rejects: what was detached already is then detached again. */
  async #write(lastError: string): Promise<void> {
    const { deps, logger } = this.#ctx;
    const teardown = {
      firstFailedAt: this.#firstFailedAt,
      since: this.#since,
      failedAt: deps.now(),
      attempts: this.#attempts,
      lastError,
    };
    try {
      await this.#checkUnchanged();
      const { record, plan } = recordWithPlan({ ...this.#record, teardown }, this.#detachables());
      await deps.records.update(record, plan);
      this.#record = record;
    } catch (error) {
      logger.warn({ err: error }, "the progress of the teardown could not be recorded");
    }
  }

  /** What remains. The DELs are worked out when the record is first written. */
  #detachables(): readonly DetachableAttachment[] {
    const attachments = this.#remaining;
    const { config } = this.#ctx;
    this.#owed ??= detachables({ ...this.#record, attachments }, config.delegateTimeoutMs);
    this.#owed = this.#owed.filter(({ attachment }) => attachments.includes(attachment));
    return this.#owed;
  }

  async #checkUnchanged(): Promise<void> {
    if (!this.#withoutLock) return;
    const stored = await this.#ctx.deps.records.load(this.#record);
    if (isDeepStrictEqual(stored, this.#record)) return;
    throw new CniError(
      CniErrorCode.TryAgainLater,
      "another process changed the attachment record while it was being detached",
    );
  }
}
