import type { CniError } from "#cni/error.ts";
import { yieldingUnused } from "#engine/add/default-route/running-routes.ts";
import { collectErrors } from "#engine/call/failures.ts";
import { linkNames } from "#engine/call/sandbox.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { changesOf, isSettled } from "./desired-networks.ts";
import { FailedSwapError } from "./failed-swaps.ts";
import { type PlannedAddition, planChanges, stays } from "./plan-changes.ts";
import { OperationLog } from "./reports/operation-log.ts";
import type { HotPlugOutcome } from "./reports/outcome.ts";
import { failedText, swapLostText } from "./reports/problem-texts.ts";
import {
  attachTo,
  detachFrom,
  loadLatest,
  type NetworkToAttach,
  type SandboxToChange,
} from "./running-networks.ts";
import { type LockedSandbox, markDetaching } from "./running-sandboxes.ts";

/**
 * Makes the networks of a running sandbox those of its pod's annotation: first detaches, last
 * attached first, then attaches in the order of the annotation. A failure leaves the others.
 * @throws SandboxUnavailableError without a record that can be changed, HostGoneError when the agent
 *   has gone
 */
export async function changeNetworks(locked: LockedSandbox): Promise<HotPlugOutcome> {
  const { ctx, pod, refreshed } = locked;
  const sandbox = { ...locked, log: new OperationLog(locked) };
  const stored = await loadLatest(sandbox);
  const { removals } = changesOf(ctx.config, stored.record, { ...pod, refreshed });
  const yielding = await yieldingUnused(ctx, locked.netns, removals);
  const attachments = stored.record.attachments.map(
    (each) => yielding[removals.indexOf(each)] ?? each,
  );
  const record = { ...stored.record, attachments };
  const changes = changesOf(ctx.config, record, { ...pod, refreshed });
  const plan = await planChanges(sandbox, record, changes);
  if (plan.removals.length > 0) await markDetaching(ctx, { ...stored, record }, plan.removals);
  const changer = new NetworkChanger(sandbox);
  const replaced = plan.additions.map((each) => each.replaced);
  for (const each of plan.removals) await changer.detach(each, replaced.includes(each));
  await changer.attachAll(plan.additions);
  const left = changesOf(ctx.config, (await loadLatest(sandbox)).record, pod);
  const problems = [...(changes.invalid ? [{ error: changes.invalid }] : []), ...plan.problems];
  const state = isSettled(left) ? "settled" : "failed";
  return { state, operations: sandbox.log.operations, problems };
}

/** Carries out planned changes, with events for failed ones. */
class NetworkChanger {
  readonly #sandbox: SandboxToChange;
  /** Attachments that could not be removed, or not be replaced and are back. */
  readonly #left = new Set<PlannedAddition["replaced"]>();
  /** Attachments whose element is on another interface now. */
  readonly #moved = new Set<PlannedAddition["moved"]>();

  constructor(sandbox: SandboxToChange) {
    this.#sandbox = sandbox;
  }

  /** As {@link detachFrom}, with an event when it fails. @throws HostGoneError */
  async detach(removed: RecordedAttachment, isReplaced: boolean): Promise<void> {
    const [error] = await collectErrors([removed], (each) =>
      detachFrom(this.#sandbox, each, isReplaced),
    );
    if (error === undefined) return;
    this.#left.add(removed);
    this.#sandbox.log.failed("remove", removed, { error });
  }

  /** Attaches networks in order, each in the first way that works. @throws as {@link detach} */
  async attachAll(additions: readonly PlannedAddition[]): Promise<void> {
    const reserved = additions.map(({ ways: [{ ifName }] }) => ifName);
    for (const each of additions) await this.#attachPlanned(each, reserved);
  }

  async #attachPlanned(addition: PlannedAddition, reserved: readonly string[]): Promise<void> {
    const { ways, replaced, moved } = addition;
    const [{ ifName }] = ways;
    if (this.#left.has(replaced)) return;
    if (moved !== undefined && this.#left.has(moved))
      return this.#notPlugged(addition, stays(moved));
    const { ctx, netns } = this.#sandbox;
    const links = await linkNames(ctx, netns);
    const isMade = links.has(ifName) && !this.#sandbox.links.has(ifName);
    if (isMade || (await this.#isRecorded(ifName)))
      return this.#attachElsewhere(addition, new Set([...links, ...reserved]));
    const isMoved = this.#moved.has(replaced);
    let failure: CniError | undefined;
    for (const planned of ways) {
      failure = await this.#attach({ ...addition, planned, isMoved });
      if (failure === undefined) this.#sandbox.log.succeeded("add", planned);
      // What a failed way has left is owed: its DEL would detach another attachment.
      if (failure === undefined || (await this.#isRecorded(ifName))) break;
    }
    if (failure === undefined) this.#moved.add(moved);
    else await this.#notPlugged(addition, failure);
  }

  /** As {@link attachTo}. @returns why it failed @throws as {@link detach} */
  async #attach(network: NetworkToAttach): Promise<CniError | undefined> {
    const [failure] = await collectErrors([network], (each) => attachTo(this.#sandbox, each));
    return failure;
  }

  /** Whether an attachment has, or may have, that interface. @throws as {@link loadLatest} */
  async #isRecorded(name: string): Promise<boolean> {
    const { attachments } = (await loadLatest(this.#sandbox)).record;
    return attachments.some((each) => each.ifName === name && each.state !== "detached");
  }

  /** Attaches what an element should have replaced, unless the edit has moved it. */
  async #notPlugged(addition: PlannedAddition, error: CniError): Promise<void> {
    const { ways, former, replaced } = addition;
    const [first] = ways;
    const { failedSwaps, log, pod } = this.#sandbox;
    const isGone = former === undefined || this.#moved.has(replaced);
    if (isGone || (await this.#isRecorded(former.ifName)))
      return log.failed("add", first, { error });
    const lost = await this.#attach({ ...addition, planned: former, isMoved: false });
    if (lost !== undefined)
      return log.failed("add", first, { error, text: swapLostText(error, former, lost) });
    this.#left.add(replaced);
    const swap = new FailedSwapError(error, former);
    failedSwaps.note(pod, first, swap);
    log.failed("add", first, { error: swap, text: failedText("swap", swap) });
  }

  /**
   * An attachment that could not be removed has the interface of an element, or a plugin has just
   * made it: an element without a name gets another.
   */
  async #attachElsewhere(
    { selection }: PlannedAddition,
    links: ReadonlySet<string>,
  ): Promise<void> {
    const { record } = await loadLatest(this.#sandbox);
    const changes = { removals: [], additions: [{ selection }] };
    const { additions } = await planChanges({ ...this.#sandbox, links }, record, changes);
    await this.attachAll(additions);
  }
}
