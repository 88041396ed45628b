import type { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { changesOf, isSettled } from "./desired-networks.ts";
import { FailedSwapError } from "./failed-swaps.ts";
import { type PlannedAddition, planChanges, stays } from "./plan-changes.ts";
import { type HotPlugOperation, OperationLog } from "./reports/operation-log.ts";
import {
  type HotPlugProblem,
  notPluggedText,
  notUnpluggedText,
  swapFailedText,
  swapLostText,
  swapPausedText,
} from "./reports/problem-texts.ts";
import { RunningNetworks } from "./running-networks.ts";
import { type LockedSandbox, markDetaching } from "./running-sandboxes.ts";

/** What was done, and what the annotation still requests in vain. */
export interface NetworkChangesMade {
  readonly operations: readonly HotPlugOperation[];
  /** Why elements, or the whole annotation, cannot be attached. */
  readonly problems: readonly HotPlugProblem[];
  /** Whether the pod has what its annotation requests. */
  readonly isComplete: boolean;
}

/**
 * Makes the networks of a running sandbox those of its pod's annotation: first detaches, last
 * attached first, then attaches in the order of the annotation. A failure leaves the others.
 * @throws SandboxUnavailableError without a record that can be changed, HostGoneError when the agent
 *   has gone
 */
export async function changeNetworks(
  ctx: CallContext,
  sandbox: LockedSandbox,
): Promise<NetworkChangesMade> {
  const { pod, refreshed } = sandbox;
  const log = new OperationLog(ctx, sandbox);
  const networks = new RunningNetworks(ctx, sandbox, log);
  const stored = await networks.load();
  const changes = changesOf(ctx.config, stored.record, { ...pod, refreshed });
  const plan = await planChanges(ctx, sandbox, { record: stored.record, changes });
  if (plan.removals.length > 0) await markDetaching(ctx, stored, plan.removals);
  const changer = new NetworkChanger(ctx, sandbox, { networks, log });
  const replaced = plan.additions.map((each) => each.replaced);
  for (const each of plan.removals) await changer.detach(each, replaced.includes(each));
  await changer.attachAll(plan.additions);
  const left = changesOf(ctx.config, (await networks.load()).record, pod);
  const problems = [...(changes.invalid ? [{ error: changes.invalid }] : []), ...plan.problems];
  return { operations: log.operations, problems, isComplete: isSettled(left) };
}

/** Carries out planned changes, with events for those that fail. */
class NetworkChanger {
  readonly #ctx: CallContext;
  readonly #sandbox: LockedSandbox;
  readonly #networks: RunningNetworks;
  readonly #log: OperationLog;
  /** Attachments that could not be removed, or not be replaced and are back. */
  readonly #left = new Set<PlannedAddition["replaced"]>();
  /** Attachments whose element is on another interface now. */
  readonly #moved = new Set<PlannedAddition["moved"]>();

  constructor(
    ctx: CallContext,
    sandbox: LockedSandbox,
    { networks, log }: { readonly networks: RunningNetworks; readonly log: OperationLog },
  ) {
    this.#ctx = ctx;
    this.#sandbox = sandbox;
    this.#networks = networks;
    this.#log = log;
  }

  /** As {@link RunningNetworks.detach}. @throws HostGoneError when the agent has gone */
  async detach(removed: RecordedAttachment, isReplaced: boolean): Promise<void> {
    const failure = await this.#networks.detach(removed, isReplaced);
    if (failure === undefined) return;
    this.#left.add(removed);
    this.#log.failed("remove", removed, { error: failure, text: notUnpluggedText(failure) });
  }

  /** Attaches networks in order, each in the first way that works. @throws as {@link detach} */
  async attachAll(additions: readonly PlannedAddition[]): Promise<void> {
    const reserved = additions.flatMap(({ ways }) => ways.map(({ ifName }) => ifName));
    for (const each of additions) await this.#attachPlanned(each, reserved);
  }

  async #attachPlanned(addition: PlannedAddition, reserved: readonly string[]): Promise<void> {
    const { ways, replaced, moved } = addition;
    if (this.#left.has(replaced)) return;
    if (moved !== undefined && this.#left.has(moved))
      return this.#notPlugged(addition, stays(moved));
    const [first] = ways as [PlannedAttachment];
    const links = await this.#networks.links();
    const isMade = links.has(first.ifName) && !this.#sandbox.links.has(first.ifName);
    if (isMade || (await this.#networks.isRecorded(first.ifName)))
      return this.#attachElsewhere(addition, new Set([...links, ...reserved]));
    const failure = await this.#attachOneOf(ways, addition);
    if (failure === undefined) this.#moved.add(moved);
    else await this.#notPlugged(addition, failure);
  }

  async #notPlugged(addition: PlannedAddition, failure: CniError): Promise<void> {
    const [first] = addition.ways as [PlannedAttachment];
    const former = await this.#bringBack(addition);
    if (former?.error !== undefined) {
      const text = swapLostText(failure, former.planned, former.error);
      this.#log.failed("add", first, { error: failure, text });
    } else if (former === undefined) {
      this.#log.failed("add", first, { error: failure, text: notPluggedText(failure) });
    } else {
      const { pod, failedSwaps } = this.#sandbox;
      const swap = new FailedSwapError(failure, swapFailedText(failure, former.planned));
      failedSwaps.note(pod, first, swap);
      this.#log.failed("add", first, { error: swap, text: swapPausedText(swap) });
    }
  }

  /** @returns why the last way has failed, if no one works @throws as {@link detach} */
  async #attachOneOf(
    ways: readonly PlannedAttachment[],
    addition: PlannedAddition,
  ): Promise<CniError | undefined> {
    let failure: CniError | undefined;
    for (const planned of ways) {
      // What a failed way has left is owed: its DEL would detach another attachment.
      if (await this.#networks.isRecorded(planned.ifName)) break;
      const isMoved = this.#moved.has(addition.replaced);
      failure = await this.#networks.attach({ ...addition, planned, isMoved });
      if (failure !== undefined) continue;
      this.#log.succeeded("add", planned);
      return undefined;
    }
    return failure;
  }

  /**
   * Attaches what an element should have replaced, unless the edit has moved it.
   * @returns that, with the error if it failed; undefined if there is nothing to attach
   * @throws as {@link detach}
   */
  async #bringBack(addition: PlannedAddition): Promise<FormerNetwork | undefined> {
    const { former: planned, replaced } = addition;
    if (planned === undefined || this.#moved.has(replaced)) return undefined;
    if (await this.#networks.isRecorded(planned.ifName)) return undefined;
    const error = await this.#networks.attach({ ...addition, planned, isMoved: false });
    if (error === undefined) this.#left.add(replaced);
    return { planned, error };
  }

  /**
   * The interface of an element is that of an attachment that could not be removed, or a plugin has
   * just made it: an element without a name gets another.
   */
  async #attachElsewhere(
    { selection }: PlannedAddition,
    links: ReadonlySet<string>,
  ): Promise<void> {
    const record = await this.#networks.record();
    const changes = { removals: [], additions: [{ selection }] };
    const sandbox = { ...this.#sandbox, links };
    const { additions } = await planChanges(this.#ctx, sandbox, { record, changes });
    await this.attachAll(additions);
  }
}

/** What an element should have replaced. */
interface FormerNetwork {
  readonly planned: PlannedAttachment;
  /** Why it could not be attached again. */
  readonly error: CniError | undefined;
}
