import type { CniError } from "#cni/error.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { changesOf, isSettled } from "./desired-networks.ts";
import { FailedSwapError } from "./failed-swaps.ts";
import { type PlannedAddition, planChanges, stays } from "./plan-changes.ts";
import { OperationLog } from "./reports/operation-log.ts";
import type { HotPlugOutcome } from "./reports/outcome.ts";
import {
  notPluggedText,
  notUnpluggedText,
  swapLostText,
  swapPausedText,
} from "./reports/problem-texts.ts";
import { RunningNetworks } from "./running-networks.ts";
import { type LockedSandbox, markDetaching } from "./running-sandboxes.ts";

/**
 * Makes the networks of a running sandbox those of its pod's annotation: first detaches, last
 * attached first, then attaches in the order of the annotation. A failure leaves the others.
 * @throws SandboxUnavailableError without a record that can be changed, HostGoneError when the agent
 *   has gone
 */
export async function changeNetworks(sandbox: LockedSandbox): Promise<HotPlugOutcome> {
  const { ctx, pod, refreshed } = sandbox;
  const log = new OperationLog(sandbox);
  const networks = new RunningNetworks(sandbox, log);
  const stored = await networks.load();
  const changes = changesOf(ctx.config, stored.record, { ...pod, refreshed });
  const plan = await planChanges(sandbox, stored.record, changes);
  if (plan.removals.length > 0) await markDetaching(ctx, stored, plan.removals);
  const changer = new NetworkChanger(sandbox, networks, log);
  const replaced = plan.additions.map((each) => each.replaced);
  for (const each of plan.removals) await changer.detach(each, replaced.includes(each));
  await changer.attachAll(plan.additions);
  const left = changesOf(ctx.config, (await networks.load()).record, pod);
  const problems = [...(changes.invalid ? [{ error: changes.invalid }] : []), ...plan.problems];
  return { state: isSettled(left) ? "settled" : "failed", operations: log.operations, problems };
}

/** Carries out planned changes, with events for those that fail. */
class NetworkChanger {
  readonly #sandbox: LockedSandbox;
  readonly #networks: RunningNetworks;
  readonly #log: OperationLog;
  /** Attachments that could not be removed, or not be replaced and are back. */
  readonly #left = new Set<PlannedAddition["replaced"]>();
  /** Attachments whose element is on another interface now. */
  readonly #moved = new Set<PlannedAddition["moved"]>();

  constructor(sandbox: LockedSandbox, networks: RunningNetworks, log: OperationLog) {
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
    const reserved = additions.map(({ ways: [{ ifName }] }) => ifName);
    for (const each of additions) await this.#attachPlanned(each, reserved);
  }

  async #attachPlanned(addition: PlannedAddition, reserved: readonly string[]): Promise<void> {
    const { replaced, moved } = addition;
    const [{ ifName }] = addition.ways;
    if (this.#left.has(replaced)) return;
    if (moved !== undefined && this.#left.has(moved))
      return this.#notPlugged(addition, stays(moved));
    const links = await this.#networks.links();
    const isMade = links.has(ifName) && !this.#sandbox.links.has(ifName);
    if (isMade || (await this.#networks.isRecorded(ifName)))
      return this.#attachElsewhere(addition, new Set([...links, ...reserved]));
    const failure = await this.#attachOneOf(addition);
    if (failure === undefined) this.#moved.add(moved);
    else await this.#notPlugged(addition, failure);
  }

  /** @returns why the last way has failed, if no one works @throws as {@link detach} */
  async #attachOneOf(addition: PlannedAddition): Promise<CniError | undefined> {
    const isMoved = this.#moved.has(addition.replaced);
    let failure: CniError | undefined;
    for (const planned of addition.ways) {
      // What a failed way has left is owed: its DEL would detach another attachment.
      if (await this.#networks.isRecorded(planned.ifName)) break;
      failure = await this.#networks.attach({ ...addition, planned, isMoved });
      if (failure !== undefined) continue;
      this.#log.succeeded("add", planned);
      return undefined;
    }
    return failure;
  }

  /** Attaches what an element should have replaced, unless the edit has moved it. */
  async #notPlugged(addition: PlannedAddition, error: CniError): Promise<void> {
    const { ways, former, replaced } = addition;
    const [first] = ways;
    const isGone = former === undefined || this.#moved.has(replaced);
    if (isGone || (await this.#networks.isRecorded(former.ifName)))
      return this.#log.failed("add", first, { error, text: notPluggedText(error) });
    const network = { ...addition, planned: former, isMoved: false };
    const lost = await this.#networks.attach(network);
    if (lost !== undefined)
      return this.#log.failed("add", first, { error, text: swapLostText(error, former, lost) });
    this.#left.add(replaced);
    const swap = new FailedSwapError(error, former);
    this.#sandbox.failedSwaps.note(this.#sandbox.pod, first, swap);
    this.#log.failed("add", first, { error: swap, text: swapPausedText(swap) });
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
    const { additions } = await planChanges({ ...this.#sandbox, links }, record, changes);
    await this.attachAll(additions);
  }
}
