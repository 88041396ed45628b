import { isDeepStrictEqual } from "node:util";
import { parseJson } from "#cni/document.ts";
import { contextWithoutCall } from "#engine/call/call-context.ts";
import type { PodState } from "#engine/check/not-attached.ts";
import { configForCall } from "#engine/config.ts";
import {
  type HotPlugOptions,
  loadUsable,
  type RunningSandboxes,
} from "#engine/hotplug/running-sandboxes.ts";
import {
  changeRecord,
  owe,
  payAfterAnswer,
  waitsForCall,
} from "#engine/network-status/status-writer.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { type AttachmentRecord, usableRecord } from "#engine/record/record.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { updateAddresses } from "./addresses.ts";
import { findLostInterfaces, type Inspection } from "./heal.ts";

const intact: Inspection = { lost: [], willHeal: false };

/**
 * Looks for interfaces that have disappeared from a running pod, which become an event, and for
 * addresses that have changed, which its status then shows.
 * @returns the networks that lack theirs, and whether hot-plug is to attach some again
 * @throws CniError when the record or the configuration cannot be read, or the sandbox is in use;
 *   HostGoneError when the agent has gone
 */
export async function inspect(
  sandboxes: RunningSandboxes,
  pod: Pod,
  { hosts, conf }: Pick<HotPlugOptions, "hosts" | "conf">,
): Promise<Inspection> {
  const { deps, reports } = sandboxes;
  const config = configForCall(deps.config(), await conf());
  const record = await sandboxes.recordOf(pod);
  const { inspect: what } = config;
  if (what.length === 0 || record === undefined || !hosts.isAvailable()) return intact;
  return sandboxes.run(config, { pod, record, hosts, isInspection: true }, async (at) => {
    const { ctx, key, locks } = at;
    const stored = await loadUsable(deps, key);
    if (stored === undefined) return intact;
    const updated = what.includes("addresses") ? await updateAddresses(at, stored) : undefined;
    // It takes the lock, which this holds.
    if (updated !== undefined) void payAfterAnswer(ctx, key, { locks });
    if (!what.includes("interfaces") && !what.includes("heal")) return intact;
    const found = await findLostInterfaces(at, updated ?? stored);
    if (found.lost.length > 0) reports.report(pod, found.lost.join("; "), "lost");
    else reports.forget(pod.uid, "lost");
    return found;
  });
}

/**
 * Publishes the status of an attached pod anew, if the pod shows another one and none is waiting to
 * be published. Nothing is executed in the sandbox.
 * @throws CniError when the record or the configuration cannot be read, or the record not written
 */
export async function restoreStatus(
  sandboxes: RunningSandboxes,
  pod: PodState,
  { conf }: Pick<HotPlugOptions, "conf">,
): Promise<void> {
  const { deps, locks } = sandboxes;
  const ctx = contextWithoutCall(deps, await conf());
  const found = await sandboxes.recordOf(pod);
  if (found === undefined) return;
  const change = async (record: AttachmentRecord): Promise<AttachmentRecord | undefined> => {
    if (!usableRecord(record) || record.pendingStatus !== undefined) return undefined;
    const owed = await owe(ctx, record, { pod });
    const own = owed.pendingStatus?.[networkStatusAnnotation];
    const isRight = own === undefined || isSameStatus(pod.networkStatus ?? "", own);
    return isRight ? undefined : { ...record, ...owed };
  };
  if ((await changeRecord(deps, found, { locks, change, waits: waitsForCall })) === "changed")
    void payAfterAnswer(ctx, found, { locks });
}

/** Others may write the same with other spaces. */
function isSameStatus(shown: string, own: string): boolean {
  try {
    return isDeepStrictEqual(parseJson(shown, "the status"), parseJson(own, "the status"));
  } catch {
    return false;
  }
}
