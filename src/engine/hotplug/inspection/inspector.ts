import { configForCall } from "#engine/config.ts";
import {
  type HotPlugOptions,
  loadUsable,
  type RunningSandboxes,
} from "#engine/hotplug/running-sandboxes.ts";
import type { Pod } from "#engine/ports/cluster.ts";
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
  const { deps, findings } = sandboxes;
  const config = configForCall(deps.config(), await conf());
  const record = await sandboxes.recordOf(pod);
  const { inspect: what } = config;
  const look = async (): Promise<Inspection> => {
    if (what.length === 0 || record === undefined || !hosts.isAvailable()) return intact;
    return sandboxes.run(config, { pod, record, hosts, isInspection: true }, async (at) => {
      const stored = await loadUsable(deps, at.key);
      if (stored === undefined) return intact;
      const updated = what.includes("addresses") ? await updateAddresses(at, stored) : undefined;
      if (updated !== undefined) deps.publisher.changed(pod);
      if (!what.includes("interfaces") && !what.includes("heal")) return intact;
      return findLostInterfaces(at, updated ?? stored);
    });
  };
  const found = await look();
  findings.state(pod, "interfaces", found.lost);
  return found;
}
