import type { CalledPod } from "#engine/ports.ts";
import { type RecordStore, sampleMax } from "#engine/record/record-store.ts";
import { recordFileName } from "#lib/files/state-files.ts";

/** What a process for one call looks at: a pod's records whose DEL has begun, and some others. */
export async function sampledRecords(
  store: Pick<RecordStore, "list">,
  pod: CalledPod | undefined,
): ReturnType<RecordStore["list"]> {
  const others = await store.list({ atMost: sampleMax });
  if (pod === undefined) return others;
  const containing = JSON.stringify(pod.name);
  const { records: ofPod } = await store.list({ isDelBegun: true, containing });
  const byName = new Map([...others.records, ...ofPod].map((each) => [recordFileName(each), each]));
  return { ...others, records: [...byName.values()] };
}
