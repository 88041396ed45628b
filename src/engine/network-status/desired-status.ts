import { reportBroken } from "#engine/ports/assertions.ts";
import type { ComparedPod } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { type AttachmentRecord, isOfPod, usableRecord } from "#engine/record/record.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { statusEntries } from "#npwg/network-status.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { latestSandbox } from "./latest-sandbox.ts";

/*
 * How network-status is written.
 *
 * What changes the networks of a sandbox writes the status into its record with the change
 * (`status-of-record.ts`): an ADD, hot-plug, and the search for changed addresses. The record keeps it.
 * `desiredStatus` is what the pod's latest record says at that moment. The publisher
 * (`src/kube/status-comparison.ts`) writes it if the pod shows another one; with a directory of
 * manifests, `src/manifests/status-files.ts` writes the file, or removes it after the DEL.
 */

/**
 * What a pod should show: the status of its latest sandbox. Nothing while that is being attached or
 * detached, so the API gets no write because of a DEL.
 * @param own the record of its ADD, which waits: that sandbox is the latest one
 */
export async function desiredStatus(
  deps: EngineDeps,
  pod: ComparedPod,
  own?: RecordKey,
): Promise<string | undefined> {
  const stored = own && (await deps.records.load(own).catch(() => undefined));
  const isAttached = stored && isOfPod(stored.record, pod) && usableRecord(stored.record);
  const record = isAttached ? stored.record : await latestSandbox(deps, pod);
  if (record === undefined || !usableRecord(record)) return undefined;
  const text = record.pendingStatus?.[networkStatusAnnotation];
  if (text !== undefined) expectRecorded(deps, record, text);
  return text;
}

/** Asserts that a status names nothing that the record does not have. */
function expectRecorded(deps: EngineDeps, { attachments }: AttachmentRecord, text: string): void {
  const recorded = attachments.map(({ displayName }) => displayName);
  const named = statusEntries(text).map(({ name }) => String(name));
  const networks = named.filter((name) => !recorded.includes(name));
  if (networks.length > 0) reportBroken(deps, "status_of_record", { networks, recorded });
}
