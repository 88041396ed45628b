import { AddRecord } from "#engine/add/add-record.ts";
import { attachNetworks } from "#engine/add/attach-networks.ts";
import {
  giveBackRoutes,
  restoreRoutes,
  routePlugged,
  routesAhead,
  routesOfSandbox,
} from "#engine/add/default-route/running-routes.ts";
import { emitAttached } from "#engine/add/events.ts";
import { rollBack } from "#engine/add/roll-back.ts";
import { detachAll } from "#engine/del/detach.ts";
import { latestSandbox } from "#engine/network-status/latest-sandbox.ts";
import { statusOfRecord } from "#engine/network-status/status-of-record.ts";
import type { Attached, PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import { recordedAttached } from "#engine/plan/recorded-network.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { SandboxUnavailableError } from "#engine/ports/sandbox-hosts.ts";
import { isSame, type RecordedAttachment } from "#engine/record/record.ts";
import {
  type DetachableAttachment,
  detachables,
  type StoredRecord,
} from "#engine/record/teardown-plan.ts";
import type { PlannedAddition } from "./plan-changes.ts";
import type { OperationLog } from "./reports/operation-log.ts";
import { failedText } from "./reports/problem-texts.ts";
import { type LockedSandbox, loadUsable } from "./running-sandboxes.ts";

/** A network to attach, and the attachment whose place it takes. */
export interface NetworkToAttach extends Pick<PlannedAddition, "recordBytes" | "replaced"> {
  readonly planned: PlannedAttachment;
  /** Whether another interface has what it replaces: a failure does not leave the place to that. */
  readonly isMoved: boolean;
}

/*
 * The networks of a running sandbox are attached and detached one at a time, with the code of an ADD
 * and of a DEL; the record says so before the first plugin runs, and when the last one has ended.
 */

/** A locked sandbox whose networks an attempt changes. */
export interface SandboxToChange extends LockedSandbox {
  readonly log: OperationLog;
}

/** @throws SandboxUnavailableError when the sandbox has no record that can be changed any more */
export async function loadLatest({ ctx, pod, key }: LockedSandbox): Promise<StoredRecord> {
  const stored = await loadUsable(ctx.deps, key);
  if (stored === undefined || !isSame(await latestSandbox(ctx.deps, pod), key))
    throw new SandboxUnavailableError("gone", "the sandbox is not attached any more");
  return stored;
}

/**
 * Detaches an attachment; one that fails is owed, and one that is replaced stays recorded until its
 * successor is.
 * @throws CniError if it failed, as {@link loadLatest}, HostGoneError when the agent has gone
 */
export async function detachFrom(
  sandbox: SandboxToChange,
  removed: RecordedAttachment,
  isReplaced: boolean,
): Promise<void> {
  const { ctx, netns, path, pod, log } = sandbox;
  const { displayName, ifName, state } = removed;
  const stored = await loadLatest(sandbox);
  const isDone = state === "detached";
  if (isDone && isReplaced) return;
  const earlier = detachables(stored);
  // Another network may have the interface of a detached one.
  const own = earlier.find(
    ({ attachment: each }) => each.ifName === ifName && (each.state === "detached") === isDone,
  ) as DetachableAttachment;
  const record = new AddRecord(ctx, stored.record, { attachments: [], earlier });
  if (!isDone) {
    const running = { record: stored.record, netns, path, isOfOthers: true, isRunning: true };
    const [failure] = await detachAll(ctx, running, [own]);
    if (failure !== undefined) {
      record.replace(own, [failure.left]);
      await record.update();
      throw failure.error;
    }
  }
  record.replace(own, isReplaced ? [detached(own)] : []);
  const recorded = record.current.attachments.filter((each) => each.state !== "detached");
  const attached = recordedAttached(recorded, ctx.config);
  record.noteAttached(await giveBackRoutes(ctx, netns, { attached, recorded }));
  await record.update(await statusOfRecord(ctx, record.current));
  if (isDone) return;
  log.succeeded("remove", removed);
  const message = `Remove ${ifName} from ${displayName}`;
  ctx.deps.events.record(pod, { type: "Normal", reason: "RemovedInterface", message });
}

/**
 * Attaches a network, or leaves the sandbox as it was. The record names the network, durably,
 * before its first plugin runs.
 * @throws as {@link detachFrom}
 */
export async function attachTo(
  sandbox: SandboxToChange,
  { planned, recordBytes, replaced, isMoved }: NetworkToAttach,
): Promise<void> {
  const { ctx, netns, pod, log } = sandbox;
  const stored = await loadLatest(sandbox);
  const earlier = recordedAttached(stored.record.attachments, ctx.config);
  const all = detachables(stored);
  const predecessor = all.find(
    ({ attachment: { ifName, state } }) => ifName === replaced?.ifName && state === "detached",
  );
  const record = new AddRecord(ctx, stored.record, {
    attachments: [planned],
    earlier: all.filter((each) => each !== predecessor),
    predecessor: isMoved ? undefined : predecessor,
  });
  const before = await routesOfSandbox(ctx, netns);
  record.noteAttached(routesAhead(before, earlier));
  await record.updateAhead();
  await ctx.deps.records.flush();
  try {
    const networks = { attachments: [planned], recordBytes };
    const { attached, kernel } = await attachNetworks(ctx, record, networks);
    const [added] = attached as readonly [Attached];
    const routed = await routePlugged(ctx, netns, { before, earlier, added, replaced });
    record.noteAttached(routed.earlier);
    record.noteAttached([routed.added], await kernel);
    await record.update(await statusOfRecord(ctx, record.current));
    emitAttached(ctx, pod, [routed.added]);
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    record.noteAttached(earlier);
    for (const err of await rollBack(ctx, record)) {
      ctx.logger.error({ err }, "cannot roll back the attachment, which stays recorded");
      log.warn("remove", failedText("remove", err));
    }
    await restoreRoutes(ctx, netns, before);
    throw error;
  }
}

/** An attachment as the record has it until its successor is there. */
function detached({ attachment, dels }: DetachableAttachment): DetachableAttachment {
  const { teardown: _, ...own } = attachment;
  return { attachment: { ...own, state: "detached" }, dels };
}
