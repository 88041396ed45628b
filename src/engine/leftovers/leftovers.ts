import { sandboxFields } from "#engine/call/call-log.ts";
import type { CallContext, EngineDeps } from "#engine/call/deps.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { namespaceIsGone } from "#engine/del/chain/netns.ts";
import { detachRecordOfOthers } from "#engine/del/detach-record.ts";
import { detachDamaged } from "#engine/del/recovery/damaged.ts";
import { withdrawStatus } from "#engine/network-status/pending-status.ts";
import { HostGoneError, type PodIdentity } from "#engine/ports.ts";
import { type AttachmentRecord, isOfEarlierBoot } from "#engine/record/record.ts";
import type { DamagedRecord } from "#engine/record/record-store.ts";
import { TimeBudget } from "#lib/concurrency/time-budget.ts";
import { errorMessage } from "#lib/error-message.ts";
import { recordFileName } from "#lib/files/state-files.ts";
import { byLastFailure, isInterruptedAdd, leftoverBackoffMs } from "./leftover.ts";
import { MissingPods } from "./missing-pods.ts";
import { sampledRecords } from "./sampled-records.ts";
import { UnknownSandboxes } from "./unknown-sandboxes.ts";

/** A call that has taken longer than this retries no leftover. */
const maxCallMs = 20_000;
/** After start-up, in which the runtime can delete sandboxes from before a reboot itself. */
const graceMs = 600_000;
/** How long the list of leftovers is used before the records are listed again. */
const listMs = 10_000;
const inFlight = "a call for its container is in flight";

/** How a teardown is retried. */
export interface RetryOptions {
  /** CNI_PATH of the call, searched after the recorded directories. */
  readonly path: readonly string[];
  readonly budgetMs: number;
  /** The call's pod. Its leftovers come first, due or not: they can prevent it from starting. */
  readonly pod?: PodIdentity | undefined;
  /** Use the last list, however old, because a pod's end waits for the call. @default false */
  readonly usesLastList?: boolean;
}

interface LeftoverList {
  readonly leftovers: readonly AttachmentRecord[];
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
 * - the runtime's own list of sandboxes has not contained it for some minutes; or
 * - it is from before a reboot, and the grace period for the runtime is over; or
 * - neither its pod nor its namespace exists: the runtime will delete one that has a namespace; or
 * - its content was lost with the power, and the grace period is over. Nothing says what it was.
 */
export class Leftovers {
  readonly #deps: EngineDeps;
  readonly #locks: SandboxLocks;
  readonly #missingPods: MissingPods;
  readonly #unknownSandboxes: UnknownSandboxes;
  readonly #startedAt: number;
  /** By record: when it is due again, on the monotonic clock. */
  readonly #notBefore = new Map<string, number>();
  #listed: (LeftoverList & { readonly at: number }) | undefined;

  constructor(deps: EngineDeps, locks: SandboxLocks) {
    this.#deps = deps;
    this.#locks = locks;
    this.#missingPods = new MissingPods(deps);
    this.#unknownSandboxes = new UnknownSandboxes(deps);
    // A process for one call counts from the machine's start.
    this.#startedAt = deps.repeatsTeardowns === "recorded" ? 0 : deps.clock();
  }

  /** Counts leftovers, except while their ADD or first DEL runs. @throws Error if they cannot be listed */
  async count(): Promise<number> {
    const isInFlight = ({ containerId, teardown }: AttachmentRecord): boolean =>
      (teardown?.attempts ?? 0) === 0 && this.#locks.isInUse(containerId);
    const { leftovers, lost } = await this.#list();
    return lost.length + leftovers.filter((record) => !isInFlight(record)).length;
  }

  /**
   * Retries one due leftover; returns whether there was one. A failure is only logged and recorded.
   * @throws HostGoneError when the shim has gone
   */
  async retryOne(ctx: CallContext, options: RetryOptions): Promise<boolean> {
    if (this.#deps.clock() - ctx.startedAt > maxCallMs) return false;
    const { name, namespace } = options.pod ?? {};
    const isOfPod = ({ pod }: AttachmentRecord): boolean =>
      pod !== undefined && pod.name === name && pod.namespace === namespace;
    const isUsable = options.usesLastList === true || this.#ageMs() < listMs;
    const { leftovers, lost } =
      (isUsable && this.#listed) || (await this.#listOrWarn(ctx, options.pod));
    const ofPod = leftovers.filter(isOfPod);
    for (const listed of new Set([...ofPod, ...leftovers])) {
      using sandbox = this.#locks.tryAcquire(listed.containerId);
      if (sandbox === undefined || !(isOfPod(listed) || this.#isDue(listed))) continue;
      if ((await this.#retry(ctx, listed, options)) !== undefined) return true;
    }
    for (const record of lost) if (await this.#detachLost(ctx, record, options)) return true;
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
      if (!(await records.list()).damaged.some((each) => recordFileName(each) === name))
        return false;
      await detachDamaged(ctx, record, { path, budget: new TimeBudget(clock, budgetMs) });
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      ctx.logger.warn({ err: error }, "cannot detach a sandbox whose record was lost");
    }
    return true;
  }

  /**
   * Retries every leftover once, due or not.
   * @throws HostGoneError when the shim has gone, Error when the records cannot be listed
   */
  async retryAll(ctx: CallContext, options: RetryOptions): Promise<LeftoverOutcome[]> {
    const outcomes: LeftoverOutcome[] = [];
    for (const listed of (await this.#list()).leftovers) {
      using sandbox = this.#locks.tryAcquire(listed.containerId);
      const outcome =
        sandbox === undefined
          ? { record: listed, remainsBecause: inFlight }
          : await this.#retry(ctx, listed, options);
      if (outcome !== undefined) outcomes.push(outcome);
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
      const stored = await this.#deps.records.load(listed);
      if (stored === undefined) return undefined;
      const { record } = stored;
      const isTriedSince = record.teardown?.attempts !== listed.teardown?.attempts;
      if (isTriedSince || !this.#isLeftover(record)) return undefined;
      // A shim replays the plan when plexusd was killed, and the next plexusd does not know that.
      if (await this.#deps.records.isLocked(record.containerId))
        return { record, remainsBecause: inFlight };
      if (!this.#isLeftoverByItself(record) && !(await namespaceIsGone(ctx, record))) {
        const remainsBecause = "its network namespace exists, so it may still be in use";
        return { record, remainsBecause };
      }
      const budget = new TimeBudget(this.#deps.clock, options.budgetMs);
      await detachRecordOfOthers(ctx, stored, { path: options.path, budget });
      ctx.logger.info({}, "detached a leftover sandbox");
      await withdrawStatus(this.#deps, record.pod);
      return { record, remainsBecause: undefined };
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      ctx.logger.warn({ err: error }, "cannot detach a leftover sandbox");
      return { record: listed, remainsBecause: errorMessage(error) };
    }
  }

  /** Lists the records for later calls that use the last list. Never rejects. */
  async refresh({ maxAgeMs }: { readonly maxAgeMs: number }): Promise<void> {
    if (this.#ageMs() > maxAgeMs) await this.#listOrWarn(this.#deps);
  }

  #ageMs(): number {
    return this.#deps.clock() - (this.#listed?.at ?? Number.NEGATIVE_INFINITY);
  }

  /** The leftovers; none when the records cannot be listed. */
  async #listOrWarn(
    { logger }: Pick<EngineDeps, "logger">,
    pod?: PodIdentity,
  ): Promise<LeftoverList> {
    return this.#list(pod).catch((error: unknown) => {
      logger.warn({ err: error }, "cannot list the records to find leftovers");
      return { leftovers: [], lost: [] };
    });
  }

  async #list(pod?: PodIdentity): Promise<LeftoverList> {
    const isOneCall = this.#deps.repeatsTeardowns === "recorded";
    const { records, damaged } = await (isOneCall
      ? sampledRecords(this.#deps.records, pod)
      : this.#deps.records.list());
    if (!isOneCall) void this.#missingPods.lookUp(records);
    void this.#unknownSandboxes.lookUp(records);
    const known = new Set([...records, ...damaged].map(recordFileName));
    for (const key of this.#notBefore.keys()) if (!known.has(key)) this.#notBefore.delete(key);
    const leftovers = byLastFailure(records.filter((record) => this.#isLeftover(record)));
    const lost = damaged.filter(({ isIncomplete }) => isIncomplete && this.#graceIsOver());
    this.#listed = { at: this.#deps.clock(), leftovers, lost };
    return this.#listed;
  }

  /** Whether the runtime has had time to delete sandboxes from before a reboot. */
  #graceIsOver(): boolean {
    return this.#deps.clock() - this.#startedAt >= graceMs;
  }

  #isLeftover(record: AttachmentRecord): boolean {
    return this.#isLeftoverByItself(record) || this.#missingPods.has(record);
  }

  #isLeftoverByItself(record: AttachmentRecord): boolean {
    if (record.teardown !== undefined || this.#unknownSandboxes.has(record)) return true;
    if (isInterruptedAdd(record, this.#deps.now())) return true;
    return this.#graceIsOver() && isOfEarlierBoot(record, this.#deps.bootId());
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
