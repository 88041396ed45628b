import type { CalledPod } from "#engine/ports/cluster.ts";
import { type RecordReader, sampleMax } from "#engine/ports/records.ts";
import { recordFileName } from "#lib/files/state-files.ts";

/** What a process for one call looks at: all records of a pod, and some others. */
export async function sampledRecords(
  records: RecordReader,
  pod: CalledPod | undefined,
): ReturnType<RecordReader["list"]> {
  const others = await records.list({ atMost: sampleMax });
  if (pod === undefined) return others;
  const { records: ofPod } = await records.list({ containing: JSON.stringify(pod.name) });
  const byName = new Map([...others.records, ...ofPod].map((each) => [recordFileName(each), each]));
  return { ...others, records: [...byName.values()] };
}
