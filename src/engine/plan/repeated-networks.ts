import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { CniError } from "#cni/error.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";
import type { PlanProblem } from "./problems.ts";

/**
 * Finds CNI networks that a pod requests twice although their plugins would damage the first
 * attachment: `bandwidth` names its device, and `portmap` and IP masquerading name their rules,
 * after network name and container ID alone, so that the second ADD fails or its DEL tears down the
 * first. Others may be repeated (multi-network specification v1.1 §4.2).
 */
export function repeatedNetworkProblems(networks: readonly ResolvedNetwork[]): PlanProblem[] {
  const byName = Map.groupBy(networks, (network) => network.list.name);
  return [...byName.values()]
    .filter((same) => same.length > 1)
    .flatMap((same) => same.flatMap(collisions).slice(0, 1));
}

function collisions(network: ResolvedNetwork): PlanProblem[] {
  const { displayName, list } = network;
  return list.plugins.flatMap((plugin) => {
    const kept = collision(plugin, network);
    if (kept === undefined) return [];
    const message =
      `network ${list.name} cannot be attached twice to one pod (${displayName}): plugin ${plugin.type} keeps ${kept} ` +
      "per network name and container, so the attachments would damage each other; " +
      "use a second definition whose configuration has another name";
    return { network: displayName, error: new CniError("RepeatedNetwork", message) };
  });
}

const rateKeys = ["ingressRate", "egressRate"];

function collision(plugin: PluginConf, network: ResolvedNetwork): string | undefined {
  const { raw, type, capabilities } = plugin;
  if (raw.ipMasq === true) return "its masquerading rules";
  if (type === "portmap" && capabilities.portMappings && hasPortMappings(network)) {
    return "its port mapping rules";
  }
  const limited = capabilities.bandwidth && network.capabilityArgs.bandwidth;
  if (type === "bandwidth" && (limited || rateKeys.some((key) => raw[key] !== undefined))) {
    return "its shaping device";
  }
  return undefined;
}

/** Runtimes send an empty list to networks that have no port mapped. */
function hasPortMappings({ capabilityArgs: { portMappings } }: ResolvedNetwork): boolean {
  return Array.isArray(portMappings) && portMappings.length > 0;
}
