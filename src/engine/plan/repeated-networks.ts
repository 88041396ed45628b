import { limitsEgress, type PluginConf } from "#cni/conf/plugin-conf.ts";
import { CniError } from "#cni/error.ts";
import { type JsonObject, membersOf } from "#lib/json.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";
import type { PlanProblem } from "./problems.ts";

/**
 * Finds CNI networks that a pod requests twice although their plugins would damage the first
 * attachment: `bandwidth` names its device, and `portmap` and IP masquerading name their rules,
 * after network name and container ID alone, so that the second ADD fails or its DEL tears down the
 * first. Others may be repeated (multi-network specification v1.1 §4.2), also with an attachment
 * that keeps none of it.
 */
export function repeatedNetworkProblems(networks: readonly ResolvedNetwork[]): PlanProblem[] {
  const byName = Map.groupBy(networks, (network) => network.list.name);
  return [...byName.values()].flatMap((same) => collision(same) ?? []);
}

/** The first attachment of one network that keeps what an earlier one has. */
function collision(same: readonly ResolvedNetwork[]): PlanProblem | undefined {
  const taken = new Set<string>();
  for (const { displayName: network, list, capabilityArgs } of same) {
    const kept = list.plugins.flatMap((plugin) => {
      const what = keptBy(plugin, capabilityArgs);
      return what === undefined ? [] : { type: plugin.type, what };
    });
    const repeated = kept.find(({ what }) => taken.has(what));
    if (repeated !== undefined) {
      const message =
        `network ${list.name} cannot be attached twice to one pod (${network}): plugin ${repeated.type} keeps ${repeated.what} ` +
        "per network name and container, so the attachments would damage each other; " +
        "use a second definition whose configuration has another name";
      return { network, error: new CniError("RepeatedNetwork", message) };
    }
    for (const { what } of kept) taken.add(what);
  }
  return undefined;
}

/** What a plugin has once for a network and a container. */
function keptBy(
  { raw, type, capabilities }: PluginConf,
  { portMappings, bandwidth }: JsonObject,
): string | undefined {
  if (membersOf(raw, "ipmasq").at(-1) === true) return "its masquerading rules";
  // Runtimes send an empty list to networks that have no port mapped.
  const hasPorts = Array.isArray(portMappings) && portMappings.length > 0;
  if (type === "portmap" && capabilities.portMappings && hasPorts) return "its port mapping rules";
  const isLimited = limitsEgress(raw) || (capabilities.bandwidth && limitsEgress(bandwidth));
  return type === "bandwidth" && isLimited ? "its shaping device" : undefined;
}
