import { sandboxFields } from "#engine/call/call-log.ts";
import type { CallContext, EngineDeps } from "#engine/call/deps.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { detachRecord } from "#engine/del/detach-record.ts";
import { namespaceIsGone, netnsOfRecord } from "#engine/del/netns.ts";
import { HostGoneError, type PodIdentity } from "#engine/ports.ts";
import { type AttachmentRecord, isOfEarlierBoot } from "#engine/record/record.ts";
import { TimeBudget } from "#lib/concurrency/time-budget.ts";
import { errorMessage } from "#lib/error-message.ts";
import { recordFileName } from "#lib/files/state-files.ts";
import { leftoverBackoffMs } from "./leftover.ts";
import { MissingPods } from "./missing-pods.ts";
import { UnknownSandboxes } from "./unknown-sandboxes.ts";

/** A call that has taken longer already leaves leftovers to others. */
const maxCallMs = 20_000;
/** After its start, plexusd leaves the sandboxes from before a restart of the machine to the runtime for so long. */
const graceMs = 600_000;
/** How long the list of leftovers is used before the records are read again. */
const listMs = 10_000;

/** How a teardown is repeated. */
export interface RetryOptions {
  /** CNI_PATH of the call, searched after the recorded directories. */
  readonly path: readonly string[];
  /** What all of it may take. */
  readonly budgetMs: number;
  /** The call's pod, whose leftovers come first, due or not: they can keep it from starting. */
  readonly pod?: PodIdentity | undefined;
}

/** A leftover that was tried. */
export interface LeftoverOutcome {
  readonly record: AttachmentRecord;
  /** Why it is still there; undefined when it is detached. */
  readonly remainsBecause: string | undefined;
}

/**
 * Repeats the teardown of sandboxes that the container runtime will not have deleted, by the hands of
 * other calls: the engine itself cannot execute anything. A record is such a leftover when
 *
 * - its DEL has begun and not succeeded, or the runtime's GC did not list it; or
 * - the runtime's own list, where there is one, has been without its sandbox for some minutes; or
 * - it is from before a restart of the machine, and the runtime had its time to delete it; or
 * - its pod no longer exists, and neither does its namespace. While that exists the sandbox may
 *   be in use, and the runtime still has to delete it.
 *
 * Each is repeated with exponential back-off.
 */
export class Leftovers {
  readonly #deps: EngineDeps;
  readonly #locks: SandboxLocks;
  readonly #missingPods: MissingPods;
  readonly #unknownSandboxes: UnknownSandboxes;
  readonly #startedAt: number;
  /** By record: when it may be tried again, on the monotonic clock. */
  readonly #notBefore = new Map<string, number>();
  #listed: { readonly at: number; readonly leftovers: readonly AttachmentRecord[] } | undefined;

  constructor(deps: EngineDeps, locks: SandboxLocks) {
    this.#deps = deps;
    this.#locks = locks;
    this.#missingPods = new MissingPods(deps);
    this.#unknownSandboxes = new UnknownSandboxes(deps);
    this.#startedAt = deps.clock();
  }

  /**
   * How many records are leftovers at the moment; one whose first DEL is in flight is none yet.
   * @throws Error when the records cannot be listed
   */
  async count(): Promise<number> {
    const isInFlight = ({ containerId, teardown }: AttachmentRecord): boolean =>
      teardown?.attempts === 0 && this.#locks.isInUse(containerId);
    return (await this.#list()).filter((record) => !isInFlight(record)).length;
  }

  /**
   * Repeats the teardown of one leftover whose time has come, in what time a call has to spare. A
   * failure is logged and recorded, and is none of the call.
   * @returns whether there was one
   * @throws HostGoneError when the shim has gone
   */
  async retryOne(ctx: CallContext, options: RetryOptions): Promise<boolean> {
    if (this.#deps.clock() - ctx.startedAt > maxCallMs) return false;
    const isOfPod = ({ pod }: AttachmentRecord): boolean =>
      pod !== undefined &&
      pod.name === options.pod?.name &&
      pod.namespace === options.pod.namespace;
    const leftovers = await this.#listedOrNone(ctx);
    const ofPod = leftovers.filter(isOfPod);
    for (const listed of new Set([...ofPod, ...leftovers])) {
      using sandbox = this.#locks.tryAcquire(listed.containerId);
      // A call for the same container is in flight: the record is left to that.
      if (sandbox === undefined || !(isOfPod(listed) || this.#isDue(listed))) continue;
      if ((await this.#retry(sandboxContext(ctx, listed), listed, options)) !== undefined) {
        return true;
      }
    }
    return false;
  }

  /**
   * Repeats the teardown of every leftover once, whether its time has come or not.
   * @throws Error when the records cannot be listed
   * @throws HostGoneError when the shim has gone
   */
  async retryAll(ctx: CallContext, options: RetryOptions): Promise<LeftoverOutcome[]> {
    const outcomes: LeftoverOutcome[] = [];
    for (const listed of await this.#list()) {
      using sandbox = this.#locks.tryAcquire(listed.containerId);
      const outcome =
        sandbox === undefined
          ? { record: listed, remainsBecause: "a call for its container is in flight" }
          : await this.#retry(sandboxContext(ctx, listed), listed, options);
      if (outcome !== undefined) outcomes.push(outcome);
    }
    return outcomes;
  }

  /** @returns undefined when the record is no leftover any more, or was tried by somebody else */
  async #retry(
    ctx: CallContext,
    listed: AttachmentRecord,
    options: RetryOptions,
  ): Promise<LeftoverOutcome | undefined> {
    const attempts = (listed.teardown?.attempts ?? 0) + 1;
    const notBefore = this.#deps.clock() + leftoverBackoffMs(attempts);
    this.#notBefore.set(recordFileName(listed), notBefore);
    try {
      const record = await this.#deps.records.load(listed);
      const isTriedSince = record?.teardown?.attempts !== listed.teardown?.attempts;
      if (record === undefined || isTriedSince || !this.#isLeftover(record)) return undefined;
      if (!this.#isLeftoverByItself(record) && !(await namespaceIsGone(ctx, record))) {
        const remainsBecause = "its network namespace exists, so that it may still be in use";
        return { record, remainsBecause };
      }
      await this.#detach(ctx, record, options);
      return { record, remainsBecause: undefined };
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      ctx.logger.warn({ err: error }, "a leftover could not be detached");
      return { record: listed, remainsBecause: errorMessage(error) };
    }
  }

  async #detach(
    ctx: CallContext,
    record: AttachmentRecord,
    { path, budgetMs }: RetryOptions,
  ): Promise<void> {
    const netns = await netnsOfRecord(ctx, record);
    const budget = new TimeBudget(this.#deps.clock, budgetMs);
    await detachRecord(ctx, record, { netns, path, budget, withoutLock: true, inTurn: true });
    ctx.logger.info({}, "the attachments that a sandbox had left behind are detached");
    const { pod } = record;
    if (pod !== undefined && !(await this.#deps.records.hasPod(pod))) {
      await this.#deps.publisher.withdraw(pod);
    }
  }

  /** The leftovers, or none when the records cannot be listed, which is logged. */
  async #listedOrNone(ctx: CallContext): Promise<readonly AttachmentRecord[]> {
    try {
      return await this.#recentList();
    } catch (error) {
      ctx.logger.warn({ err: error }, "the records cannot be searched for leftovers");
      return [];
    }
  }

  async #recentList(): Promise<readonly AttachmentRecord[]> {
    const listed = this.#listed;
    if (listed !== undefined && this.#deps.clock() - listed.at < listMs) return listed.leftovers;
    return this.#list();
  }

  /** Those that were never tried first, then those whose last failure is longest ago. */
  async #list(): Promise<readonly AttachmentRecord[]> {
    const { records } = await this.#deps.records.list();
    void this.#missingPods.lookUp(records);
    void this.#unknownSandboxes.lookUp(records);
    this.#forgetAllBut(records);
    const leftovers = records
      .filter((record) => this.#isLeftover(record))
      .toSorted((a, b) => failedAt(a).localeCompare(failedAt(b)));
    this.#listed = { at: this.#deps.clock(), leftovers };
    return leftovers;
  }

  #forgetAllBut(records: readonly AttachmentRecord[]): void {
    const known = new Set(records.map(recordFileName));
    for (const key of this.#notBefore.keys()) if (!known.has(key)) this.#notBefore.delete(key);
  }

  #isLeftover(record: AttachmentRecord): boolean {
    return this.#isLeftoverByItself(record) || this.#missingPods.has(record);
  }

  #isLeftoverByItself(record: AttachmentRecord): boolean {
    if (record.teardown !== undefined || this.#unknownSandboxes.has(record)) return true;
    const graceIsOver = this.#deps.clock() - this.#startedAt >= graceMs;
    return graceIsOver && isOfEarlierBoot(record, this.#deps.bootId());
  }

  /** By what the record says, and by this process's memory, as a failure may not have been recorded. */
  #isDue(record: AttachmentRecord): boolean {
    const notBefore = this.#notBefore.get(recordFileName(record)) ?? 0;
    if (this.#deps.clock() < notBefore) return false;
    const { teardown } = record;
    if (teardown === undefined) return true;
    const sinceMs = Date.parse(this.#deps.now()) - Date.parse(teardown.failedAt);
    // A negative age: the machine's clock was set back.
    return sinceMs < 0 || sinceMs >= leftoverBackoffMs(teardown.attempts);
  }
}

function failedAt({ teardown }: AttachmentRecord): string {
  return teardown?.failedAt ?? "";
}

/** The context of a call with a logger that names another sandbox than the call's. */
function sandboxContext(ctx: CallContext, record: AttachmentRecord): CallContext {
  return { ...ctx, logger: ctx.deps.logger.child(sandboxFields(record)) };
}
