import type { PodIdentity } from "#engine/ports.ts";
import type { RecordStore } from "#engine/record/record-store.ts";
import { recordFileName } from "#lib/files/state-files.ts";

/** A call must not take longer because the node has many pods. */
const othersMax = 16;

/** What a process for one call looks at: a pod's records, and some of the others. */
export async function sampledRecords(
  store: Pick<RecordStore, "list">,
  pod: PodIdentity | undefined,
): ReturnType<RecordStore["list"]> {
  const others = await store.list({ atMost: othersMax });
  if (pod === undefined) return others;
  const { records: ofPod } = await store.list({ containing: JSON.stringify(pod.name) });
  const byName = new Map([...others.records, ...ofPod].map((each) => [recordFileName(each), each]));
  return { ...others, records: [...byName.values()] };
}
