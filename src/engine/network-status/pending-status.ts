import type { CallContext, EngineDeps } from "#engine/call/deps.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import type { PodIdentity, PodName, PublishOutcome, PublishPause } from "#engine/ports.ts";
import { type AttachmentRecord, addHasEnded, type RecordKey } from "#engine/record/record.ts";
import { sampleMax } from "#engine/record/record-store.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { isLatest, isSame, latestSandbox } from "./latest-sandbox.ts";
import { type PendingStatus, statusOfRecord } from "./publish-status.ts";
import { statusPause, withoutPause } from "./status-pause.ts";

/*
 * A network-status that an ADD has not published stays in the record until it is published: the
 * process may end before, and the API server may be unavailable.
 */

/** How often, 100 ms apart, another process's call for a sandbox is waited for. */
const waitsForCall = 50;

/** What {@link pay} works with besides the call's context. */
export interface Payment {
  readonly locks: SandboxLocks;
  /** Whether another process serves a call for a container. @default none does */
  readonly isInUse?: (containerId: string) => Promise<boolean>;
}

/** Which records are looked at. */
export interface PendingStatusSelection {
  /** A container whose record comes before all others. */
  readonly first?: string;
  /** Read only some of the node's records. @default false */
  readonly isSampled?: boolean;
}

/**
 * Records whose pending status can be sent now, in random rotation: an unpublishable one must not
 * block others.
 */
export async function recordsWithPendingStatus(
  deps: Pick<EngineDeps, "records" | "bootId" | "clock">,
  { first, isSampled = false }: PendingStatusSelection,
): Promise<AttachmentRecord[]> {
  const { records } = await deps.records.list(
    isSampled ? { atMost: sampleMax } : { containing: '"pendingStatus"' },
  );
  const pending = withoutPause(
    deps,
    records.filter(({ pendingStatus }) => pendingStatus !== undefined),
  );
  const start = Math.floor(Math.random() * pending.length);
  const rotated = [...pending.slice(start), ...pending.slice(0, start)];
  const isFirst = ({ containerId }: AttachmentRecord): boolean => containerId === first;
  return [...rotated.filter(isFirst), ...rotated.filter((each) => !isFirst(each))];
}

/**
 * Publishes the status that a record owes its pod, and then removes it from the record. Resolves
 * when nothing more is sent for it. A DEL in between withdraws it. If the pod has got another
 * sandbox in another process meanwhile, the write may have come after the one of that sandbox, whose
 * status is then owed again.
 * @throws CniError when a record cannot be read or written
 */
export async function pay(
  ctx: CallContext,
  key: RecordKey,
  payment: Payment,
): Promise<PublishOutcome> {
  const { deps } = ctx;
  const record = (await deps.records.load(key))?.record;
  const { pod, pendingStatus } = record ?? {};
  if (record === undefined || pendingStatus === undefined) return "settled";
  if (pod === undefined || !(await isLatest(deps, record))) {
    await changePending(deps, key, { status: pendingStatus, ...payment });
    return "settled";
  }
  const isCurrent = async (): Promise<boolean> => {
    const stored = await deps.records.load(key);
    return stored !== undefined && (await isLatest(deps, stored.record));
  };
  const after = Promise.resolve();
  const onPause = async (paused: PublishPause): Promise<void> => {
    await changePending(deps, key, { status: pendingStatus, paused, ...payment }).catch(
      (err: unknown) => ctx.logger.warn({ err }, "cannot record when a status is to be sent again"),
    );
  };
  const outcome = await deps.publisher.publish(pod, pendingStatus, { after, isCurrent, onPause });
  if (!(await isCurrent())) await oweAgain(ctx, pod, payment);
  else if (outcome === "settled") {
    await changePending(deps, key, { status: pendingStatus, ...payment });
  }
  return outcome;
}

/**
 * Pays the status of an ADD or of a hot-plug operation when the runtime has its answer. Never
 * rejects.
 */
export async function payAfterAnswer(
  ctx: CallContext,
  key: RecordKey,
  payment: Payment,
): Promise<void> {
  try {
    await ctx.answered;
    await pay(ctx, key, payment);
  } catch (error) {
    ctx.logger.warn({ err: error }, "cannot record that the network-status is published");
  }
}

/**
 * Drops the status of a pod whose sandbox is detached, unless another sandbox of the pod is
 * recorded: after a reboot, the runtime deletes the old sandbox last.
 */
export async function withdrawStatus(
  { records, publisher }: Pick<EngineDeps, "records" | "publisher">,
  pod: PodName | undefined,
): Promise<void> {
  if (pod !== undefined) await publisher.withdraw(pod, { unless: () => records.hasPod(pod) });
}

/**
 * Owes a pod the status of its latest sandbox again. Not if this process has attached that one: its
 * publisher keeps the order of a pod's writes.
 */
async function oweAgain(ctx: CallContext, pod: PodIdentity, payment: Payment): Promise<void> {
  const { records } = ctx.deps;
  const latest = await latestSandbox(ctx.deps, pod);
  if (latest === undefined || isSame(latest, records.latestOf(pod))) return;
  for (let i = 0; i < waitsForCall && (await isUsed(payment, latest)); i++) await pause(100);
  {
    using _lock = await payment.locks.acquire(latest.containerId);
    const stored = await records.load(latest);
    if (stored === undefined || (await isUsed(payment, latest))) return;
    if (!addHasEnded(stored.record) || stored.record.pendingStatus !== undefined) return;
    const owed = await statusOfRecord(ctx, stored.record);
    await records.update({ ...stored.record, pendingStatus: owed }, stored.plan);
  }
  await pay(ctx, latest, payment);
}

interface PendingChange extends Payment {
  /** If another one is owed by now, the record stays as it is. */
  readonly status: PendingStatus;
  /** @default the status is not owed any more */
  readonly paused?: PublishPause;
}

/** Leaves the record to another process that serves a call for the sandbox. */
async function changePending(
  deps: Pick<EngineDeps, "records" | "bootId" | "clock">,
  key: RecordKey,
  { status, paused, locks, isInUse }: PendingChange,
): Promise<void> {
  using _lock = await locks.acquire(key.containerId);
  if ((await isInUse?.(key.containerId)) === true) return;
  const stored = await deps.records.load(key);
  if (stored === undefined) return;
  const { pendingStatus, statusPause: before, ...withoutStatus } = stored.record;
  if (JSON.stringify(pendingStatus) !== JSON.stringify(status)) return;
  const still = paused && { pendingStatus, statusPause: statusPause(deps, paused, before) };
  await deps.records.update({ ...withoutStatus, ...still }, stored.plan);
}

async function isUsed({ isInUse }: Payment, { containerId }: RecordKey): Promise<boolean> {
  return (await isInUse?.(containerId)) === true;
}
