import { signOfBoot } from "#engine/call/sign-of-boot.ts";
import type { ComparedPod } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { recordsOf } from "#engine/ports/records.ts";
import { type AttachmentRecord, byAge } from "#engine/record/record.ts";

type LatestDeps = Pick<EngineDeps, "records" | "bootId" | "clock" | "now">;

/**
 * The record of the pod's latest sandbox, also if its ADD has not ended or its DEL has begun.
 * Other processes may have attached or detached sandboxes of the pod, so the records decide.
 */
export async function latestSandbox(
  deps: LatestDeps,
  pod: ComparedPod,
): Promise<AttachmentRecord | undefined> {
  return (await recordsOf(deps.records, pod))
    .filter((each) => mayBeOfThisBoot(deps, each))
    .toSorted(byAge(deps.bootId()))
    .at(-1);
}

/**
 * That a record is of an earlier boot, its boot ID cannot say alone. A clock that no process of
 * this boot has reached yet says it, too.
 */
function mayBeOfThisBoot(deps: LatestDeps, record: AttachmentRecord): boolean {
  return signOfBoot(record, deps) === undefined || record.clockMs <= deps.clock();
}
