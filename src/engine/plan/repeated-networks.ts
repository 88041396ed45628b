import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { CniError } from "#cni/error.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";

/**
 * Refuses to attach one CNI network twice where its plugins would damage the first attachment:
 * `bandwidth` names its device, and `portmap` and IP masquerading name their rules, after network
 * name and container ID alone, so that the second ADD fails or its DEL tears down the first.
 * Anything else may be attached as often as wanted (multi-network specification v1.1 §4.2).
 * @throws CniError 100 naming network, plugin and reason
 */
export function checkRepeatedNetworks(networks: readonly ResolvedNetwork[]): void {
  const byName = Map.groupBy(networks, (network) => network.list.name);
  for (const [name, same] of byName) {
    if (same.length < 2) continue;
    for (const network of same) {
      for (const plugin of network.list.plugins) refuseCollision(name, { network, plugin });
    }
  }
}

function refuseCollision(
  name: string,
  attachment: { network: ResolvedNetwork; plugin: PluginConf },
): void {
  const reason = collision(attachment.plugin, attachment.network);
  if (reason === undefined) return;
  throw new CniError(
    "RepeatedNetwork",
    `network ${name} cannot be attached twice to one pod (${attachment.network.displayName}): ` +
      `plugin ${attachment.plugin.type} keeps ${reason} per network name and container, so that the ` +
      "attachments would damage each other; use a second definition whose configuration has another name",
  );
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
