import { asCniError, type CniError } from "#cni/error.ts";
import { AddRecord, withRoutes } from "#engine/add/add-record.ts";
import { attachNetworks } from "#engine/add/attach-networks.ts";
import { claimDevices } from "#engine/add/claim-devices.ts";
import {
  giveBackRoutes,
  restoreRoutes,
  routePlugged,
  routesAhead,
  routesOfSandbox,
} from "#engine/add/default-route/running-routes.ts";
import { emitAttached } from "#engine/add/events.ts";
import { missingInterfaces } from "#engine/add/kernel-interfaces.ts";
import { rollBack } from "#engine/add/roll-back.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { sandboxLinks } from "#engine/call/sandbox.ts";
import { detachRunning } from "#engine/del/detach.ts";
import { isLatest } from "#engine/network-status/latest-sandbox.ts";
import { statusOfRecord } from "#engine/network-status/publish-status.ts";
import type { Attached, PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import { recordedAttached } from "#engine/plan/recorded-network.ts";
import { HostGoneError } from "#engine/ports.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import {
  type DetachableAttachment,
  detachables,
  type StoredRecord,
} from "#engine/record/teardown-plan.ts";
import { changesOf, isSettled, usableRecord } from "./desired-networks.ts";
import { FailedSwapError } from "./failed-swaps.ts";
import { type HotPlugOperation, OperationLog } from "./operation-log.ts";
import { type PlannedAddition, planChanges, stays } from "./plan-changes.ts";
import {
  type HotPlugProblem,
  notPluggedText,
  notUnpluggedText,
  swapFailedText,
  swapLostText,
  swapPausedText,
} from "./problem-texts.ts";
import { type LockedSandbox, markDetaching, saveAttachments } from "./running-sandboxes.ts";
import { SandboxUnavailableError } from "./sandbox-hosts.ts";

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
  const networks = new RunningNetworks(ctx, sandbox);
  const stored = await networks.load();
  const changes = changesOf(ctx.config, stored.record, { ...pod, refreshed });
  const plan = await planChanges(ctx, sandbox, { record: stored.record, changes });
  if (plan.removals.length > 0) await markDetaching(ctx, stored, plan.removals);
  const replaced = plan.additions.map((each) => each.replaced);
  for (const each of plan.removals) await networks.detach(each, replaced.includes(each));
  await networks.attachAll(plan.additions);
  const left = changesOf(ctx.config, (await networks.load()).record, pod);
  const problems = [...(changes.invalid ? [{ error: changes.invalid }] : []), ...plan.problems];
  return { operations: networks.log.operations, problems, isComplete: isSettled(left) };
}

/** Attaches and detaches networks of a running sandbox, with events and a status for each. */
class RunningNetworks {
  readonly log: OperationLog;
  readonly #ctx: CallContext;
  readonly #sandbox: LockedSandbox;
  /** What was read last; undefined after an operation, which has written another. */
  #stored: StoredRecord | undefined;
  /** Whether a plugin may have made interfaces. */
  #mayHaveMade = false;
  /** Attachments that could not be removed, or not be replaced and are back. */
  readonly #left = new Set<RecordedAttachment>();
  /** Attachments whose element is on another interface now. */
  readonly #moved = new Set<RecordedAttachment>();

  constructor(ctx: CallContext, sandbox: LockedSandbox) {
    this.#ctx = ctx;
    this.#sandbox = sandbox;
    this.log = new OperationLog(ctx, sandbox);
  }

  /** @throws SandboxUnavailableError when the sandbox has no record that can be changed any more */
  async load(): Promise<StoredRecord> {
    const { deps } = this.#ctx;
    const stored = await deps.records.load(this.#sandbox.key);
    const isUsable = stored !== undefined && usableRecord(stored.record);
    if (!isUsable || !(await isLatest(deps, stored.record)))
      throw new SandboxUnavailableError("gone", "the sandbox is not attached any more");
    this.#stored = stored;
    return stored;
  }

  /** The record as it is: with the sandbox's locks, only operations write it. @throws as {@link load} */
  async #record(): Promise<AttachmentRecord> {
    return (this.#stored ?? (await this.load())).record;
  }

  /**
   * Detaches an attachment; one that fails is owed, and one that is replaced stays recorded until its
   * successor is.
   * @throws HostGoneError when the agent has gone; another failure becomes an event
   */
  async detach(removed: RecordedAttachment, isReplaced: boolean): Promise<void> {
    const failure = await this.#try(() => this.#detach(removed, isReplaced));
    if (failure === undefined) return;
    this.#left.add(removed);
    this.log.failed("remove", removed, { error: failure, text: notUnpluggedText(failure) });
  }

  /** Attaches networks in order, each in the first way that works. @throws as {@link detach} */
  async attachAll(additions: readonly PlannedAddition[]): Promise<void> {
    const reserved = additions.flatMap(({ ways }) => ways.map(({ ifName }) => ifName));
    for (const each of additions) await this.#attachPlanned(each, reserved);
  }

  async #attachPlanned(addition: PlannedAddition, reserved: readonly string[]): Promise<void> {
    const { ways, replaced, moved } = addition;
    if (replaced !== undefined && this.#left.has(replaced)) return;
    const [first] = ways as [PlannedAttachment];
    const links = await this.#links();
    const isMade = links.has(first.ifName) && !this.#sandbox.links.has(first.ifName);
    if (isMade || (await this.#isRecorded(first.ifName)))
      return this.#attachElsewhere(addition, new Set([...links, ...reserved]));
    const failure =
      moved !== undefined && this.#left.has(moved)
        ? stays(moved)
        : await this.#attachOneOf(ways, addition);
    if (failure === undefined) {
      if (moved !== undefined) this.#moved.add(moved);
      return;
    }
    await this.#notPlugged(addition, failure);
  }

  async #notPlugged(addition: PlannedAddition, failure: CniError): Promise<void> {
    const [first] = addition.ways as [PlannedAttachment];
    const former = await this.#bringBack(addition);
    if (former?.error !== undefined) {
      const text = swapLostText(failure, former.planned, former.error);
      this.log.failed("add", first, { error: failure, text });
    } else if (former === undefined) {
      this.log.failed("add", first, { error: failure, text: notPluggedText(failure) });
    } else {
      const { pod, failedSwaps } = this.#sandbox;
      const swap = new FailedSwapError(failure, swapFailedText(failure, former.planned));
      failedSwaps.note(pod, first, swap);
      this.log.failed("add", first, { error: swap, text: swapPausedText(swap) });
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
      if (await this.#isRecorded(planned.ifName)) break;
      this.#mayHaveMade = true;
      failure = await this.#try(() => this.#attach({ ...addition, planned }));
      if (failure !== undefined) continue;
      this.log.succeeded("add", planned);
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
    if (planned === undefined || replaced === undefined || this.#moved.has(replaced))
      return undefined;
    if (await this.#isRecorded(planned.ifName)) return undefined;
    const error = await this.#try(() => this.#attach({ ...addition, planned }));
    if (error === undefined) this.#left.add(replaced);
    return { planned, error };
  }

  /** The interfaces in the sandbox, with those that plugins have just made. @throws CniError 5 */
  async #links(): Promise<ReadonlySet<string>> {
    if (!this.#mayHaveMade) return this.#sandbox.links;
    const { netns } = await this.#record();
    const links = await sandboxLinks(this.#ctx, netns);
    return new Set(links.map(({ name }) => name));
  }

  /** Whether an attachment has, or may have, that interface. */
  async #isRecorded(name: string): Promise<boolean> {
    const { attachments } = await this.#record();
    return attachments.some((each) => each.ifName === name && each.state !== "detached");
  }

  /**
   * The interface of an element is that of an attachment that could not be removed, or a plugin has
   * just made it: an element without a name gets another.
   */
  async #attachElsewhere(
    { selection, replaced }: PlannedAddition,
    links: ReadonlySet<string>,
  ): Promise<void> {
    if (selection.ifName !== undefined || replaced !== undefined) return;
    const record = await this.#record();
    const changes = { removals: [], additions: [{ selection }] };
    const sandbox = { ...this.#sandbox, links };
    const { additions } = await planChanges(this.#ctx, sandbox, { record, changes });
    await this.attachAll(additions);
  }

  async #detach(removed: RecordedAttachment, isReplaced: boolean): Promise<void> {
    const { ifName } = removed;
    const { path } = this.#sandbox;
    const { record, ...stored } = await this.load();
    const isDone = removed.state === "detached";
    if (isDone && isReplaced) return;
    const all = detachables({ record, ...stored });
    const own = all.filter(({ attachment }) => attachment.ifName === ifName);
    const [failure] = isDone ? [] : await detachRunning(this.#ctx, { ...record, path }, own);
    if (failure !== undefined) {
      const { item, error } = failure;
      const owed = all.map((each) => (own.includes(each) ? item : each));
      await saveAttachments(this.#ctx, record, owed);
      throw error;
    }
    const left = all.filter((each) => !own.includes(each));
    const recorded = left
      .map(({ attachment }) => attachment)
      .filter(({ state }) => state !== "detached");
    const attached = this.#attachedOf(recorded);
    const routed = await giveBackRoutes(this.#ctx, record.netns, { attached, recorded });
    const routes = { changed: routed, timeoutMs: this.#ctx.config.delegateTimeoutMs };
    const changed = all.flatMap((each) => {
      if (own.includes(each)) return isReplaced ? detached(each) : [];
      return withRoutes(record, each, routes);
    });
    const attachments = changed.map(({ attachment }) => attachment);
    const pendingStatus = await statusOfRecord(this.#ctx, { ...record, attachments });
    await saveAttachments(this.#ctx, { ...record, pendingStatus }, changed);
    if (isDone) return;
    this.log.succeeded("remove", removed);
    const message = `Remove ${ifName} from ${removed.displayName}`;
    const event = { type: "Normal", reason: "RemovedInterface", message } as const;
    this.#ctx.deps.events.record(this.#sandbox.pod, event);
  }

  /** The record names the network, durably, before its first plugin runs. */
  async #attach({ planned, recordBytes, replaced }: NetworkToAttach): Promise<void> {
    const ctx = this.#ctx;
    const stored = await this.load();
    const { attachments, ...own } = stored.record;
    const { containerId, netns } = own;
    const earlier = this.#attachedOf(attachments);
    const isSuccessorOf = ({ attachment }: DetachableAttachment): boolean =>
      attachment.ifName === replaced?.ifName && attachment.state === "detached";
    const record = new AddRecord(ctx, own, {
      attachments: [planned],
      earlier: detachables(stored).filter((each) => !isSuccessorOf(each)),
    });
    const before = await routesOfSandbox(ctx, netns);
    record.noteRoutes(routesAhead(before, earlier));
    await record.updateAhead();
    await ctx.deps.records.flush();
    try {
      await claimDevices(ctx, own, [planned]);
      const networks = { attachments: [planned], recordBytes };
      const { attached, kernel } = await attachNetworks(ctx, record, networks);
      const present = await kernel;
      const [added] = attached as readonly [Attached];
      const plugged = { before, earlier, added, replaced };
      const routed = await routePlugged(ctx, netns, plugged);
      record.noteRoutes(routed.earlier);
      const userSpaceInterfaces = missingInterfaces(added.result, present);
      record.noteAttached(0, { ...routed.added, userSpaceInterfaces });
      const all = { containerId, attachments: record.attachments };
      await record.update({ pendingStatus: await statusOfRecord(ctx, all) });
      emitAttached(ctx, this.#sandbox.pod, [routed.added]);
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      record.noteRoutes(earlier);
      const owed = await rollBack(ctx, record);
      for (const each of owed) this.log.warn("remove", notUnpluggedText(each));
      await restoreRoutes(ctx, netns, before);
      throw error;
    }
  }

  #attachedOf(attachments: readonly RecordedAttachment[]): Attached[] {
    return attachments.flatMap((each) => {
      const { state, result } = each;
      if (state !== "attached" || result === undefined) return [];
      return recordedAttached({ ...each, result }, this.#ctx.config);
    });
  }

  /** Carries out an operation. @returns the error @throws HostGoneError when the agent has gone */
  async #try(operation: () => Promise<void>): Promise<CniError | undefined> {
    try {
      await operation();
      return undefined;
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      return asCniError(error);
    } finally {
      this.#stored = undefined;
    }
  }
}

/** An attachment as the record has it until its successor is there. */
function detached({ attachment, dels }: DetachableAttachment): DetachableAttachment {
  const { teardown: _, ...own } = attachment;
  return { attachment: { ...own, state: "detached" }, dels };
}

/** What an element should have replaced. */
interface FormerNetwork {
  readonly planned: PlannedAttachment;
  /** Why it could not be attached again. */
  readonly error: CniError | undefined;
}

interface NetworkToAttach extends Pick<PlannedAddition, "recordBytes" | "replaced"> {
  readonly planned: PlannedAttachment;
}
