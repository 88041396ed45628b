import { CniErrorCode } from "#cni/error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import type { PlanProblem } from "#engine/plan/problems.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";
import type { NetworkChanges } from "./changes.ts";
import { changesOf } from "./desired-networks.ts";
import { planAdditions } from "./plan-additions.ts";
import { plug } from "./plug.ts";
import { type HotPlugOperation, type LockedSandbox, Steps } from "./steps.ts";
import { markRemovals } from "./unplug.ts";

/** What was done, and what the annotation still requests in vain. */
export interface NetworkChangesMade {
  readonly operations: readonly HotPlugOperation[];
  /** Elements that cannot be attached; nothing is unplugged while there are any. */
  readonly rejected: readonly PlanProblem[];
  /** Whether the pod has what its annotation requests. */
  readonly isComplete: boolean;
}

/**
 * Makes the networks of a running sandbox those of its pod's annotation: first unplugs, last
 * attached first, then plugs in the order of the annotation. A failure leaves the others.
 * @throws SandboxUnavailableError without a record that can be changed, CniError 11 when something
 *   cannot be looked up at the moment, 100 for an invalid annotation; HostGoneError when the agent
 *   has gone
 */
export async function changeNetworks(
  ctx: CallContext,
  sandbox: LockedSandbox,
): Promise<NetworkChangesMade> {
  const steps = new Steps(ctx, sandbox);
  const stored = await steps.load();
  const { pod, refreshed } = sandbox;
  const changes = changesOf(ctx.config, stored.record, { ...pod, refreshed });
  const rejected = await rejectedAdditions(ctx, sandbox, { record: stored.record, changes });
  // A mistake in the annotation must not take a network that works.
  const mayRemove = ({ hotPlug }: RecordedAttachment): boolean =>
    rejected.length === 0 || hotPlug !== undefined;
  const removals = changes.removals.filter(mayRemove);
  if (removals.length > 0) await markRemovals(ctx, stored, removals);
  for (const each of removals) await steps.unplug(each);
  await plugAll(steps, changes);
  const left = changesOf(ctx.config, (await steps.load()).record, pod);
  const isComplete = left.additions.length + left.removals.length === 0;
  return { operations: steps.operations, rejected, isComplete };
}

/** What could not be attached if all removals were made. @throws CniError 11 */
async function rejectedAdditions(
  ctx: CallContext,
  sandbox: LockedSandbox,
  { record, changes }: { readonly record: AttachmentRecord; readonly changes: NetworkChanges },
): Promise<PlanProblem[]> {
  const { additions, removals } = changes;
  const problems: PlanProblem[] = [];
  const attachments = record.attachments.filter((each) => !removals.includes(each));
  const links = without(sandbox.links, changes);
  const after = { ...sandbox, links, additions, record: { ...record, attachments } };
  await planAdditions({ ...ctx, problems }, after);
  const temporary = problems.find(({ error }) => error.code === CniErrorCode.TryAgainLater);
  if (temporary !== undefined) throw temporary.error;
  return problems;
}

function without(links: ReadonlySet<string>, { removals }: NetworkChanges): ReadonlySet<string> {
  const names = removals.map(({ ifName }) => ifName);
  return new Set([...links].filter((name) => !names.includes(name)));
}

/** An interface that could not be removed, or may not, has its name still. */
async function plugAll(steps: Steps, changes: NetworkChanges): Promise<void> {
  const { ctx, sandbox } = steps;
  const { record } = await steps.load();
  const names = new Set(record.attachments.map(({ ifName }) => ifName));
  const isFree = ({ ifName = "" }: NetworkSelection): boolean => !names.has(ifName);
  const additions = changes.additions.filter(isFree);
  const now = { ...sandbox, record, additions, links: without(sandbox.links, changes) };
  const { attachments, recordBytes } = await planAdditions({ ...ctx, problems: [] }, now);
  for (const planned of attachments) {
    const network = { pod: sandbox.pod, planned, recordBytes };
    await steps.run("add", planned, async () => plug(ctx, await steps.load(), network));
  }
}
