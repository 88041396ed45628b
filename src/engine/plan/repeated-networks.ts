import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { CniError } from "#cni/error.ts";
import { type Json, type JsonObject, membersOf } from "#lib/json.ts";
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
  return [...byName.values()].flatMap((same) => collisions(same).slice(0, 1));
}

/** Something that a plugin has once for a network and a container. */
interface Kept {
  readonly plugin: PluginConf;
  readonly what: string;
}

/** The attachments of one network that keep what an earlier one has. */
function collisions(same: readonly ResolvedNetwork[]): PlanProblem[] {
  const taken = new Set<string>();
  return same.flatMap((network) => {
    const all = keptBy(network);
    const repeated = all.filter(({ what }) => taken.has(what));
    for (const { what } of all) taken.add(what);
    return repeated.map((each) => problem(network, each));
  });
}

function problem({ displayName, list }: ResolvedNetwork, { plugin, what }: Kept): PlanProblem {
  const message =
    `network ${list.name} cannot be attached twice to one pod (${displayName}): plugin ${plugin.type} keeps ${what} ` +
    "per network name and container, so the attachments would damage each other; " +
    "use a second definition whose configuration has another name";
  return { network: displayName, error: new CniError("RepeatedNetwork", message) };
}

function keptBy({ list, capabilityArgs }: ResolvedNetwork): Kept[] {
  return list.plugins.flatMap((plugin) => {
    const what = keptByPlugin(plugin, capabilityArgs);
    return what === undefined ? [] : { plugin, what };
  });
}

function keptByPlugin(
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

/** The plugin adds a device only to limit what a pod sends. */
function limitsEgress(limits: Json | undefined): boolean {
  return membersOf(limits, "egressrate").some((rate) => rate !== 0 && rate !== null);
}
