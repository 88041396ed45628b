import { isDeepStrictEqual } from "node:util";
import { reportBroken } from "#engine/call/assertions.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { statusEntries } from "#engine/check/not-attached.ts";
import type { PodIdentity, PodName, PublishPause } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { type AttachmentRecord, addHasEnded, isSame } from "#engine/record/record.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { isLatest, latestSandbox } from "./latest-sandbox.ts";
import { type KnownBeside, statusOfRecord } from "./status-of-record.ts";
import { statusPause } from "./status-pause.ts";
import { wantsStatus } from "./wanted-status.ts";

/*
 * What writes network-status, and when.
 *
 * `owe` derives the annotation from the record of a sandbox (`status-of-record.ts`). What changes
 * the networks writes it into the record with its change, so that no crash loses it. `pay`
 * publishes what the record owes if the sandbox is the pod's latest one, and removes it from the
 * record. Nothing else calls the publisher (`src/kube/status-publisher.ts`; with a directory of
 * manifests `src/manifests/status-files.ts`).
 *
 * | event                                    | owes                      | pays                  |
 * |------------------------------------------|---------------------------|-----------------------|
 * | ADD with `afterReply`                    | `add/finish-add.ts`       | after the answer      |
 * | ADD with `beforeReply`                   | the same, if that payment | before the answer     |
 * |                                          |   was not in time         |                       |
 * | a network is plugged or unplugged        | `hotplug/`                | at once               |
 * | the addresses of an interface change     | `hotplug/inspection/`     | at once               |
 * | another component changes the status     | `hotplug/inspection/`     | at once               |
 * |   (`daemon/pods/status-guard.ts`)        |                           |                       |
 * | a static pod gets another mirror         | `adopt-mirror.ts`         | at once               |
 * | another process attaches a newer sandbox | `oweAgain`                | at once               |
 * |   while an older status is sent          |                           |                       |
 * | each minute, and after each call of      | the record does already   | `pending-payments.ts` |
 * |   plexus-standalone                      |                           |                       |
 * | the sandbox is detached                  | the record is gone        | `withdrawStatus`      |
 */

/** What a record says about a status that it owes. */
export type OwedStatus = Pick<AttachmentRecord, "pendingStatus" | "statusPause">;

/** How often {@link changeRecord} waits where the change has to be made: five seconds in all. */
export const waitsForCall = 50;

/** How {@link pay} works. */
export interface Payment {
  readonly locks: SandboxLocks;
  /** Whether another process serves a call for a container. @default whether a shim has its lock */
  readonly isInUse?: (containerId: string) => Promise<boolean>;
  /** What an ADD pays before its answer: its record does not say so. @default what it says */
  readonly unrecorded?: OwedStatus;
}

/** How a record is changed outside of calls for its sandbox. */
export interface RecordChange extends Pick<Payment, "locks" | "isInUse"> {
  /** Returns the changed record; undefined changes nothing. */
  readonly change: (record: AttachmentRecord) => Promise<AttachmentRecord | undefined>;
  /** How often, 100 ms apart, another process's call is waited for. @default 0 */
  readonly waits?: number;
}

/**
 * What a record owes its pod with these attachments: write it with them. Nothing without a pod, or
 * if the pod gets no status.
 * @throws CniError 6 when a recorded result cannot be read
 */
export async function owe(
  ctx: CallContext,
  record: Pick<AttachmentRecord, "containerId" | "pod" | "attachments">,
  known: KnownBeside = {},
): Promise<Pick<AttachmentRecord, "pendingStatus">> {
  const { pod, isShown = wantsStatus(ctx, pod, record.attachments) } = known;
  if (record.pod === undefined || !isShown) return {};
  return { pendingStatus: await statusOfRecord(ctx, record, known) };
}

/**
 * Publishes the status that a sandbox owes its pod, and removes it from the record. Resolves when
 * nothing more is sent for it; before the answer, also when it was not written in time. A DEL in
 * between withdraws it. If the pod has got another sandbox in another process meanwhile, the write
 * may have come after the one of that sandbox, whose status is then owed again.
 * @returns what is still owed
 * @throws CniError when a record cannot be read or written
 */
export async function pay(
  ctx: CallContext,
  key: RecordKey,
  { unrecorded, ...payment }: Payment,
): Promise<OwedStatus> {
  const { deps, answered, logger } = ctx;
  const load = async (): Promise<AttachmentRecord | undefined> =>
    (await deps.records.load(key))?.record;
  const record = await load();
  const { pod, pendingStatus, statusPause: before } = { ...record, ...unrecorded };
  if (pod === undefined || pendingStatus === undefined) return {};
  let isAdding = unrecorded !== undefined;
  void answered.then(() => {
    isAdding = false;
  });
  const isCurrent = async (now: AttachmentRecord | undefined): Promise<boolean> =>
    now !== undefined && (await isLatest(deps, now, isAdding));
  let owed: OwedStatus = omitUndefined({ pendingStatus, statusPause: before });
  const note = async (rest: OwedStatus): Promise<void> => {
    owed = rest;
    const change = withRest(pendingStatus, rest);
    if (unrecorded !== undefined) return;
    await changeRecord(deps, key, { ...payment, change, waits: waitsForCall });
  };
  if (!(await isCurrent(record))) {
    await note({});
    return {};
  }
  const onPause = async (paused: PublishPause): Promise<void> => {
    const until = statusPause(deps, paused, owed.statusPause);
    await note({ pendingStatus, statusPause: until }).catch((err: unknown) =>
      logger.warn({ err }, "cannot record when a status is to be sent again"),
    );
  };
  expectRecorded(ctx, record, pendingStatus);
  const outcome = await deps.publisher.publish(pod, pendingStatus, {
    waitsForEnd: unrecorded === undefined,
    isCurrent: async () => isCurrent(await load()),
    onPause,
  });
  const isLate = unrecorded === undefined && !(await isCurrent(await load()));
  if (isLate) await oweAgain(ctx, pod, payment);
  else if (outcome === "settled") await note({});
  return outcome === "settled" ? {} : owed;
}

/** Asserts that a status names nothing that the record does not have. */
function expectRecorded(
  { deps, logger }: CallContext,
  record: AttachmentRecord | undefined,
  { [networkStatusAnnotation]: text }: NonNullable<OwedStatus["pendingStatus"]>,
): void {
  const recorded = record?.attachments.map(({ displayName }) => displayName) ?? [];
  const named = statusEntries(text ?? "").map(({ name }) => String(name));
  const networks = named.filter((name) => !recorded.includes(name));
  if (networks.length > 0)
    reportBroken({ ...deps, logger }, "status_of_record", { networks, recorded });
}

/** Pays once the runtime has its answer. Never rejects. @returns whether nothing is owed now */
export async function payAfterAnswer(
  ctx: CallContext,
  key: RecordKey,
  payment: Payment,
): Promise<boolean> {
  try {
    await ctx.answered;
    return (await pay(ctx, key, payment)).pendingStatus === undefined;
  } catch (err) {
    ctx.logger.warn({ err }, "cannot publish the network-status, or record that it is published");
    return false;
  }
}

/**
 * Drops the status of a pod whose sandbox is detached, unless another sandbox of the pod is
 * recorded: after a reboot, the runtime deletes the old sandbox last.
 * @param options.isAddFailed whether its ADD is about to detach it: its record still exists
 */
export async function withdrawStatus(
  { records, publisher }: Pick<EngineDeps, "records" | "publisher">,
  pod: PodName | undefined,
  { isAddFailed = false } = {},
): Promise<void> {
  if (pod === undefined) return;
  await publisher.withdraw(pod, { unless: async () => !isAddFailed && records.hasPod(pod) });
}

/**
 * Owes a pod the status of its latest sandbox again. Not if this process has attached that one, and
 * so has published its status: the publisher keeps the order of a pod's writes.
 */
async function oweAgain(ctx: CallContext, pod: PodIdentity, payment: Payment): Promise<void> {
  const { deps } = ctx;
  const latest = await latestSandbox(deps, pod);
  const isPublished = ctx.config.statusOf === "all" && isSame(latest, deps.records.latestOf(pod));
  if (latest === undefined || isPublished) return;
  const change: RecordChange["change"] = async (record) => {
    if (!addHasEnded(record) || record.pendingStatus !== undefined) return undefined;
    return { ...record, ...(await owe(ctx, record, { isShown: true })) };
  };
  const outcome = await changeRecord(deps, latest, { ...payment, change, waits: waitsForCall });
  if (outcome === "changed") await pay(ctx, latest, payment);
}

/** Changes nothing if something else is owed by now. */
function withRest(paid: OwedStatus["pendingStatus"], rest: OwedStatus): RecordChange["change"] {
  return async ({ pendingStatus, statusPause: _, ...record }) =>
    isDeepStrictEqual(pendingStatus, paid) ? { ...record, ...rest } : undefined;
}

/**
 * Changes what a record owes outside of calls for its sandbox.
 * @returns `inUse` if another process serves such a call: the record is left to that
 * @throws CniError when the record cannot be read or written
 */
export async function changeRecord(
  deps: Pick<EngineDeps, "records">,
  key: RecordKey,
  { waits = 0, isInUse = (id) => deps.records.isLocked(id), ...how }: RecordChange,
): Promise<"changed" | "same" | "inUse"> {
  {
    using _lock = await how.locks.acquire(key.containerId);
    if (!(await isInUse(key.containerId))) {
      const stored = await deps.records.load(key);
      const changed = stored && (await how.change(stored.record));
      if (stored === undefined || changed === undefined) return "same";
      await deps.records.update(changed, stored.plan);
      return "changed";
    }
  }
  if (waits === 0) return "inUse";
  await pause(100);
  return changeRecord(deps, key, { ...how, isInUse, waits: waits - 1 });
}
