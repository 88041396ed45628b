import { signOfBoot } from "#engine/call/signs-of-life.ts";
import type { ComparedPod, PodIdentity } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { type AttachmentRecord, byAge, isOfPod, isSame } from "#engine/record/record.ts";
import type { RecordKey } from "#lib/files/state-files.ts";

type LatestDeps = Pick<EngineDeps, "records" | "bootId" | "clock" | "now">;

/**
 * Whether the sandbox is the pod's latest one, and its DEL has not begun. Other processes may have
 * attached or detached sandboxes of the pod while this one was stopped, so the records decide.
 */
export async function isLatest(deps: LatestDeps, record: AttachmentRecord): Promise<boolean> {
  const { pod, teardown } = record;
  if (teardown !== undefined) return false;
  if (pod === undefined) return true;
  if (!mayBeOfThisBoot(deps, record)) return false;
  const others = await sandboxesOf(deps, pod, (key) => !isSame(key, record));
  const compare = byAgeAndCreation(deps, pod);
  return !others.some((each) => compare(each, record) > 0);
}

/** The record of the pod's latest sandbox; undefined when none is attached. */
export async function latestSandbox(
  deps: LatestDeps,
  pod: ComparedPod,
): Promise<AttachmentRecord | undefined> {
  return (await sandboxesOf(deps, pod)).toSorted(byAgeAndCreation(deps, pod)).at(-1);
}

/** The usable records of a pod's sandboxes that may be of this boot, among those keys. */
async function sandboxesOf(
  deps: LatestDeps,
  pod: ComparedPod,
  isAmong: (key: RecordKey) => boolean = () => true,
): Promise<AttachmentRecord[]> {
  const keys = (await deps.records.keysOf(pod)).filter(isAmong);
  const loaded = keys.map((key) => deps.records.load(key).catch(() => undefined));
  return (await Promise.all(loaded))
    .flatMap((stored) => stored?.record ?? [])
    .filter((each) => isOfPod(each, pod) && mayBeOfThisBoot(deps, each));
}

/**
 * That a record is of an earlier boot, its boot ID cannot say alone. A clock that no process of
 * this boot has reached yet says it, too.
 */
function mayBeOfThisBoot(deps: LatestDeps, record: AttachmentRecord): boolean {
  return signOfBoot(record, deps) === undefined || record.clockMs <= deps.clock();
}

/** By age; of two with the same age, the one that this process has created last is the younger one. */
function byAgeAndCreation(
  { records, bootId }: LatestDeps,
  pod: ComparedPod,
): (a: AttachmentRecord, b: AttachmentRecord) => number {
  const last = records.latestOf(pod as PodIdentity);
  const compare = byAge(bootId());
  return (a, b) => compare(a, b) || Number(isSame(a, last)) - Number(isSame(b, last));
}
