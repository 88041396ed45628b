import { asCniError, CniError } from "#cni/error.ts";
import { AddRecord, type Attached } from "#engine/add/add-record.ts";
import { attachNetworks } from "#engine/add/attach-networks.ts";
import { keepClusterRoutes } from "#engine/add/cluster-routes.ts";
import { withoutDefaultRoutes } from "#engine/add/default-route/default-routes.ts";
import { emitAttached } from "#engine/add/events.ts";
import { rollBack } from "#engine/add/roll-back.ts";
import { linkNames } from "#engine/call/sandbox.ts";
import { detachAll } from "#engine/del/detach.ts";
import {
  type DetachableAttachment,
  detachables,
  recordWithPlan,
} from "#engine/del/planned-dels.ts";
import { latestSandbox } from "#engine/network-status/latest-sandbox.ts";
import { statusOfRecord } from "#engine/network-status/status-of-record.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { SandboxUnavailableError } from "#engine/ports/sandbox-hosts.ts";
import { isSame, type RecordedAttachment } from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import type { NetworkChanges } from "./changes.ts";
import { changesOf, isSettled } from "./desired-networks.ts";
import { planChanges } from "./plan-changes.ts";
import type { NamedAttachment } from "./reports/conditions.ts";
import { noteOperation, type SandboxToChange } from "./reports/operation-log.ts";
import type { HotPlugOutcome } from "./reports/outcome.ts";
import { type LockedSandbox, loadUsable, markDetaching } from "./running-sandboxes.ts";

/*
 * Networks are detached and attached one at a time, with the code of a DEL and of an ADD; the record
 * says so before the first plugin runs, and when the last one has ended.
 */

/**
 * Makes the networks of a running sandbox those of its pod's annotation: detaches what that does not
 * request, last attached first, then attaches what is lacking, in the order of the annotation. A
 * network that fails leaves the others. An edit that breaks a rule changes nothing.
 * @throws SandboxUnavailableError without a record that can be changed, HostGoneError when the agent
 *   has gone
 */
export async function changeNetworks(locked: LockedSandbox): Promise<HotPlugOutcome> {
  const { ctx, pod, refreshed } = locked;
  const sandbox: SandboxToChange = { ...locked, operations: [] };
  const stored = await loadLatest(sandbox);
  const changes = changesOf(ctx.config, stored.record, { ...pod, refreshed });
  const plan = await planChanges(sandbox, stored.record, changes);
  const removals = plan.problems.length === 0 ? changes.removals : leftOf(changes);
  const left = await detachEach(sandbox, stored, removals);
  for (const planned of plan.attachments) {
    const step = async () => {
      const inItsPlace = left.find(({ network }) => hasPlaceOf(network, planned));
      if (inItsPlace !== undefined) throw inItsPlace.error;
      await attachOrUndo(sandbox, planned, plan.recordBytes);
    };
    await failureOf(sandbox, { op: "add", network: planned }, step);
  }
  const latest = await loadLatest(sandbox);
  const remaining = changesOf(ctx.config, latest.record, pod);
  const state = isSettled(remaining) ? "settled" : "failed";
  return { state, operations: sandbox.operations, problems: plan.problems };
}

/** What is detached also if the edit is refused: earlier attempts left it, and no element requests it. */
function leftOf({ removals, additions }: NetworkChanges): readonly RecordedAttachment[] {
  const requested = additions.map(({ renewed }) => renewed);
  const left = removals.filter((each) => each.state !== "attached" && !requested.includes(each));
  return left.filter(({ defaultRoute }) => defaultRoute === undefined);
}

/** @throws SandboxUnavailableError when the sandbox has no record that can be changed any more */
async function loadLatest({ ctx, pod, key }: LockedSandbox): Promise<StoredRecord> {
  const stored = await loadUsable(ctx.deps, key);
  if (stored === undefined || !isSame(await latestSandbox(ctx.deps, pod), key))
    throw new SandboxUnavailableError("gone", "the sandbox is not attached any more");
  return stored;
}

/** A network that could not be detached. */
interface NotDetached {
  readonly network: RecordedAttachment;
  readonly error: CniError;
}

async function detachEach(
  sandbox: SandboxToChange,
  stored: StoredRecord,
  removals: readonly RecordedAttachment[],
): Promise<readonly NotDetached[]> {
  if (removals.length > 0) await markDetaching(sandbox.ctx, stored, removals);
  const left: NotDetached[] = [];
  for (const network of removals) {
    const step = () => detach(sandbox, network);
    const error = await failureOf(sandbox, { op: "remove", network }, step);
    if (error !== undefined) left.push({ network, error });
  }
  return left;
}

/** Whether what could not be detached still has the interface or the device of a network. */
function hasPlaceOf(left: RecordedAttachment, { ifName, device }: PlannedAttachment): boolean {
  return left.ifName === ifName || (device !== undefined && left.device?.id === device.id);
}

/** Runs a step for one network. @throws if the sandbox cannot be changed any more */
async function failureOf(
  sandbox: SandboxToChange,
  { op, network }: { readonly op: "add" | "remove"; readonly network: NamedAttachment },
  step: () => Promise<void>,
): Promise<CniError | undefined> {
  let error: CniError | undefined;
  try {
    await step();
  } catch (thrown) {
    if (thrown instanceof HostGoneError || thrown instanceof SandboxUnavailableError) throw thrown;
    error = asCniError(thrown);
  }
  noteOperation(sandbox, op, { network, error });
  return error;
}

/** What fails is owed: the record keeps it. */
async function detach(sandbox: SandboxToChange, removed: RecordedAttachment): Promise<void> {
  const { ctx, netns, path, pod } = sandbox;
  const { displayName, ifName } = removed;
  const stored = await loadLatest(sandbox);
  const before = detachables(stored);
  const own = before.find(
    ({ attachment: each }) => each.ifName === ifName && each.state !== "attached",
  ) as DetachableAttachment;
  const running = { record: stored.record, netns, path, isOfOthers: true, isRunning: true };
  const [failure] = await detachAll(ctx, running, [own]);
  const left = failure === undefined ? [] : [failure.left];
  const all = before.flatMap((each) => (each === own ? left : [each]));
  const { record, plan } = recordWithPlan(stored.record, all);
  const status = failure === undefined && (await statusOfRecord(ctx, record));
  await ctx.deps.records.update({ ...record, ...status }, plan);
  if (failure !== undefined) throw failure.error;
  const message = `Remove ${ifName} from ${displayName}`;
  ctx.deps.events.record(pod, { reason: "RemovedInterface", message });
}

/**
 * Attaches a network, or leaves the sandbox as it was. The record names the network, durably, before
 * its first plugin runs.
 */
async function attachOrUndo(
  sandbox: SandboxToChange,
  planned: PlannedAttachment,
  recordBytes: number,
): Promise<void> {
  const { ctx, netns, pod } = sandbox;
  const stored = await loadLatest(sandbox);
  const earlier = detachables(stored);
  const others = stored.record.attachments.map(({ ifName }) => ifName);
  await refuseTaken(sandbox, planned);
  const record = new AddRecord(ctx, stored.record, { attachments: [planned], earlier });
  await record.updateAhead();
  await ctx.deps.records.flush();
  try {
    const keepRoutes = (added: Attached) => withoutDefaultRoutes(ctx, netns, { added, others });
    // Not only at the end, as a further plugin may hang. But `sbr` moves routes to its own table.
    const betweenPlugins = async (partial: Attached): Promise<void> => {
      if (!usesRoutes(planned)) await keepRoutes(partial);
    };
    const attachments = [planned];
    const beforeOthers = () => keepClusterRoutes(ctx, record, pod);
    const networks = { attachments, recordBytes, beforeOthers, betweenPlugins };
    const { attached, kernel } = await attachNetworks(ctx, record, networks);
    const [added] = attached as readonly [Attached];
    const routed = await keepRoutes(added);
    record.noteAttached([routed], await kernel);
    await record.update(await statusOfRecord(ctx, record.current));
    emitAttached(ctx, pod, [routed]);
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    for (const left of await rollBack(ctx, record))
      noteOperation(sandbox, "remove", { network: planned, error: left });
    throw error;
  }
}

function usesRoutes({ list }: PlannedAttachment): boolean {
  return list.plugins.some(({ type }) => type === "sbr");
}

/** The plugin of another network may have made the interface: undoing this one would remove it. */
async function refuseTaken(
  { ctx, netns, links: before }: SandboxToChange,
  { ifName, displayName }: PlannedAttachment,
): Promise<void> {
  const made = (await linkNames(ctx, netns)).difference(before);
  if (!made.has(ifName)) return;
  const message = `network ${displayName} (${ifName}): the interface already exists in the pod`;
  throw new CniError("InterfaceNameTaken", message);
}
