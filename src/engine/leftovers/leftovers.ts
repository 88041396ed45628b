import type { CallContext } from "#engine/call/call-context.ts";
import { sandboxFields } from "#engine/call/call-context.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { detachRecordOfOthers } from "#engine/del/detach-record.ts";
import { detachDamaged } from "#engine/del/recovery/damaged.ts";
import { isCertainlyOver } from "#engine/del/signs-of-life.ts";
import type { CalledPod } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import type { DamagedRecord } from "#engine/ports/records.ts";
import { type AttachmentRecord, isOfPod } from "#engine/record/record.ts";
import { TimeBudget } from "#lib/concurrency/time-budget.ts";
import { errorMessage } from "#lib/error-message.ts";
import { recordFileName } from "#lib/files/state-files.ts";
import { Absences, ended } from "./absences.ts";
import { byLastFailure, leftoverBackoffMs, leftoverReason, markOver, nodeNow } from "./leftover.ts";

/** A call that has taken longer than this retries no leftover. */
const maxCallMs = 20_000;
/** How long the list of leftovers is used before the records are listed again. */
const listMs = 10_000;
/** How many sandboxes that may run are looked at in one call. */
const looksMax = 16;
const inFlight = "a call for its container is in flight";
const mayRun = "its network namespace exists, so it may still be in use";

/** How a teardown is retried. */
export interface RetryOptions {
  /** CNI_PATH of the call, searched after the recorded directories. */
  readonly path: readonly string[];
  readonly budgetMs: number;
  /** The call's pod. Its leftovers come first, due or not: they can prevent it from starting. */
  readonly pod?: CalledPod | undefined;
  /** Use the last list, however old, because a pod's end waits for the call. @default false */
  readonly usesLastList?: boolean;
}

interface LeftoverList {
  /** Leftovers, then sandboxes that one sign calls over, which is not enough. */
  readonly candidates: readonly AttachmentRecord[];
  /** Leftovers by their record, as `plexusctl records --leftovers` lists them. */
  readonly certain: readonly AttachmentRecord[];
  /** Records whose content was lost with the power. */
  readonly lost: readonly DamagedRecord[];
}

/** A leftover that was tried. */
export interface LeftoverOutcome {
  readonly record: AttachmentRecord;
  /** Why it remains; undefined when it is detached. */
  readonly remainsBecause: string | undefined;
}

/**
 * Retries, with exponential backoff, the teardown of sandboxes that the container runtime will not
 * delete. It does so during other calls: the engine cannot execute plugins by itself. A record is a
 * leftover when
 * - its DEL has begun and not succeeded, or the runtime's GC did not list it; or
 * - its ADD was interrupted; or
 * - a sign calls it over ({@link Absences}), and its namespace is gone; or
 * - its content was lost with the power, and the grace period is over. Nothing says what it was.
 */
export class Leftovers {
  readonly #deps: EngineDeps;
  readonly #locks: SandboxLocks;
  readonly #absences: Absences;
  /** By record: when it is due again, on the monotonic clock. */
  readonly #notBefore = new Map<string, number>();
  #listed: (LeftoverList & { readonly at: number }) | undefined;

  constructor(deps: EngineDeps, locks: SandboxLocks) {
    this.#deps = deps;
    this.#locks = locks;
    this.#absences = new Absences(deps);
  }

  /** Counts leftovers, except while their ADD or first DEL runs. @throws Error if they cannot be listed */
  async count(): Promise<number> {
    const isInFlight = ({ containerId, teardown }: AttachmentRecord): boolean =>
      (teardown?.attempts ?? 0) === 0 && this.#locks.isInUse(containerId);
    const { certain, lost } = await this.#list();
    return lost.length + certain.filter((record) => !isInFlight(record)).length;
  }

  /**
   * Retries one due leftover; returns whether there was one. A failure is only logged and recorded.
   * @throws HostGoneError when the shim has gone
   */
  async retryOne(ctx: CallContext, options: RetryOptions): Promise<boolean> {
    if (this.#deps.clock() - ctx.startedAt > maxCallMs) return false;
    const { pod } = options;
    const isOwn = (record: AttachmentRecord): boolean =>
      pod !== undefined && isOfPod(record, { namespace: pod.namespace, name: pod.name });
    const isUsable = options.usesLastList === true || this.#ageMs() < listMs;
    const { candidates, lost } = (isUsable && this.#listed) || (await this.#listOrWarn(ctx));
    const due = candidates.filter((record) => this.#isDue(record));
    const inOrder = new Set([...candidates.filter(isOwn), ...due]);
    if (await this.#retryFirst(ctx, inOrder, options)) return true;
    for (const record of lost) if (await this.#detachLost(ctx, record, options)) return true;
    return false;
  }

  /** Retries the first one that does not run; returns whether there was one. */
  async #retryFirst(
    ctx: CallContext,
    due: ReadonlySet<AttachmentRecord>,
    options: RetryOptions,
  ): Promise<boolean> {
    let looks = 0;
    for (const listed of due) {
      using sandbox = this.#locks.tryAcquire(listed.containerId);
      if (sandbox === undefined) continue;
      const outcome = await this.#retry(ctx, listed, options);
      if (outcome !== undefined && outcome.remainsBecause !== mayRun) return true;
      if (++looks === looksMax) break;
    }
    return false;
  }

  /**
   * Detaches what may be attached for a record without content, once; a failure is only logged.
   * @returns whether it was tried
   * @throws HostGoneError when the shim has gone
   */
  async #detachLost(
    ctx: CallContext,
    record: DamagedRecord,
    { path, budgetMs }: RetryOptions,
  ): Promise<boolean> {
    const { records, clock } = this.#deps;
    const name = recordFileName(record);
    using sandbox = this.#locks.tryAcquire(record.containerId);
    if (sandbox === undefined || clock() < (this.#notBefore.get(name) ?? 0)) return false;
    if (await records.isLocked(record.containerId)) return false;
    this.#notBefore.set(name, clock() + leftoverBackoffMs(1));
    try {
      const budget = new TimeBudget(clock, budgetMs);
      return await detachDamaged(ctx, record, { path, budget });
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      ctx.logger.warn({ err: error }, "cannot detach a sandbox whose record was lost");
      return true;
    }
  }

  /** Retries every leftover once, due or not. @throws HostGoneError; Error if none can be listed */
  async retryAll(ctx: CallContext, options: RetryOptions): Promise<LeftoverOutcome[]> {
    const outcomes: LeftoverOutcome[] = [];
    for (const listed of (await this.#list()).candidates) {
      using sandbox = this.#locks.tryAcquire(listed.containerId);
      const outcome =
        sandbox === undefined
          ? { record: listed, remainsBecause: inFlight }
          : await this.#retry(ctx, listed, options);
      // One that only another sign calls over is none while its namespace exists.
      if (outcome !== undefined && outcome.remainsBecause !== mayRun) outcomes.push(outcome);
    }
    return outcomes;
  }

  /** @returns undefined when it is not a leftover anymore, or another process has retried it */
  async #retry(
    { deps, ...call }: CallContext,
    listed: AttachmentRecord,
    options: RetryOptions,
  ): Promise<LeftoverOutcome | undefined> {
    const ctx = { ...call, deps, logger: deps.logger.child(sandboxFields(listed)) };
    const backoffMs = leftoverBackoffMs((listed.teardown?.attempts ?? 0) + 1);
    this.#notBefore.set(recordFileName(listed), this.#deps.clock() + backoffMs);
    try {
      const { records } = deps;
      const lookedAt = deps.clock();
      // A shim replays the plan when plexusd was killed, and the next plexusd does not know that. Before the
      // record: if this process is stopped in between, an ADD may end, which then counts as one that has ended.
      const isLocked = await records.isLocked(listed.containerId);
      const stored = await records.load(listed);
      if (stored === undefined) return undefined;
      const { record } = stored;
      const isTriedSince = record.teardown?.attempts !== listed.teardown?.attempts;
      const sign = this.#absences.of(record, lookedAt);
      if (isTriedSince || sign === undefined) return undefined;
      if (isLocked) return { record, remainsBecause: inFlight };
      if (sign !== ended && !(await isCertainlyOver(ctx, record)))
        return { record, remainsBecause: mayRun };
      const budget = new TimeBudget(deps.clock, options.budgetMs);
      const marked = sign === ended ? stored : await markOver(ctx, stored, sign);
      await detachRecordOfOthers(ctx, marked, { path: options.path, budget });
      ctx.logger.info({ sign }, "detached a leftover sandbox");
      return { record, remainsBecause: undefined };
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      ctx.logger.warn({ err: error }, "cannot detach a leftover sandbox");
      return { record: listed, remainsBecause: errorMessage(error) };
    }
  }

  /** Lists the records for later calls that use the last list, if it is older. Never rejects. */
  async refresh(maxAgeMs: number): Promise<void> {
    if (this.#ageMs() > maxAgeMs) await this.#listOrWarn(this.#deps);
  }

  #ageMs(): number {
    return this.#deps.clock() - (this.#listed?.at ?? Number.NEGATIVE_INFINITY);
  }

  /** The leftovers; none when the records cannot be listed. */
  async #listOrWarn({ logger }: Pick<EngineDeps, "logger">): Promise<LeftoverList> {
    return this.#list().catch((error: unknown) => {
      logger.warn({ err: error }, "cannot list the records to find leftovers");
      return { candidates: [], certain: [], lost: [] };
    });
  }

  async #list(): Promise<LeftoverList> {
    const { records, damaged } = await this.#deps.records.list();
    this.#absences.lookUp(records);
    const known = new Set([...records, ...damaged].map(recordFileName));
    for (const key of this.#notBefore.keys()) if (!known.has(key)) this.#notBefore.delete(key);
    const bySign = Map.groupBy(records, (record) => this.#absences.of(record));
    const hasEnded = byLastFailure(bySign.get(ended) ?? []);
    bySign.delete(ended);
    bySign.delete(undefined);
    const candidates = [...hasEnded, ...[...bySign.values()].flat()];
    const lost = await this.#absences.lost(damaged);
    const now = nodeNow(this.#deps, records);
    const certain = records.filter((record) => leftoverReason(record, now) !== undefined);
    this.#listed = { at: this.#deps.clock(), candidates, certain, lost };
    return this.#listed;
  }

  /** By the record and by this process's memory, because a failure may not have been recorded. */
  #isDue(record: AttachmentRecord): boolean {
    const notBefore = this.#notBefore.get(recordFileName(record)) ?? 0;
    if (this.#deps.clock() < notBefore) return false;
    const { teardown } = record;
    if (teardown === undefined) return true;
    const sinceMs = Date.parse(this.#deps.now()) - Date.parse(teardown.failedAt);
    // Negative when the machine's clock was set back.
    return sinceMs < 0 || sinceMs >= leftoverBackoffMs(teardown.attempts);
  }
}
