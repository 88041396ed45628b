import { currentVersion } from "#cni/versions.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { loadStored } from "#engine/del/stored.ts";
import type { DamagedRecord } from "#engine/ports/records.ts";
import type { TimeBudget } from "#lib/concurrency/time-budget.ts";
import { detachUnrecorded } from "./recover.ts";

/**
 * Detaches a sandbox that is not the call's and whose record is damaged, as its DEL would; the
 * namespace counts as gone. The caller holds the sandbox's lock.
 * @returns false if another process has detached it since it was listed, or attached it again
 * @throws CniError as {@link detachUnrecorded}
 */
export async function detachDamaged(
  ctx: CallContext,
  listed: DamagedRecord,
  { path, budget }: { readonly path: readonly string[]; readonly budget: TimeBudget },
): Promise<boolean> {
  const stored = await loadStored(ctx.deps.records, listed);
  if (stored.state !== "damaged" || stored.record.modifiedMs !== listed.modifiedMs) return false;
  const { containerId, ifName } = listed;
  const own = { containerId, ifName, path, budget };
  const sandbox = { ...own, netns: "", cniArgs: [], cniVersion: currentVersion };
  await detachUnrecorded(ctx, sandbox, stored.record);
  return true;
}
