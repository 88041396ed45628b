import { type NetConfList, parseNetConfList, toJson } from "#cni/conf/conf.ts";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import type { RequestOf } from "#docker/driver/requests.ts";
import type { JsonFiles } from "#docker/json-files.ts";
import { type NetworkState, networkSchema } from "#docker/state.ts";
import { isJsonObject } from "#lib/json.ts";
import { parseNetworkOptions } from "./network-options.ts";
import { type NetworkSources, type ResolvedConf, resolveNetwork } from "./resolve-network.ts";

/** Plugins that assign one of the network's addresses to the host, as the containers' gateway. */
const gatewayPlugins: ReadonlySet<string> = new Set(["bridge", "ptp"]);

/** Docker's networks that this driver serves. */
export class Networks {
  readonly #stored: JsonFiles<NetworkState>;
  readonly #sources: NetworkSources;

  constructor(stored: JsonFiles<NetworkState>, sources: NetworkSources) {
    this.#stored = stored;
    this.#sources = sources;
  }

  /**
   * Resolves and stores a network. A repeated call resolves it again: swarm creates a network on a
   * node each time it is first used there. @throws CniError or Error
   */
  async create(request: RequestOf<"NetworkDriver.CreateNetwork">): Promise<void> {
    const options = parseNetworkOptions(request.Options);
    const resolved = await resolveNetwork(options.network, this.#sources);
    if (options.mode === "staged") checkStagedMode(resolved);
    await this.#stored.put(request.NetworkID, {
      schemaVersion: 1,
      id: request.NetworkID,
      displayName: resolved.displayName,
      options,
      conf: toJson(resolved.list),
      ipv4: networkSchema.shape.ipv4.parse(request.IPv4Data),
      ipv6: networkSchema.shape.ipv6.parse(request.IPv6Data),
    });
  }

  remove(id: string): Promise<void> {
    return this.#stored.remove(id);
  }

  /** @throws Error when the network is not known */
  get(id: string): NetworkState {
    const network = this.#stored.get(id);
    if (network !== undefined) return network;
    throw new Error(`network ${id} is not known; create it again with docker network create`);
  }

  /**
   * Whether dockerd may leave out the reservation of a gateway address: if a plugin uses that
   * address, the first container would get it too.
   */
  async needsNoGateway(options: Readonly<Record<string, unknown>>): Promise<boolean> {
    const parsed = parseNetworkOptions(options);
    if (parsed.gateway !== "none" && !parsed.internal) return false;
    const { list } = await resolveNetwork(parsed.network, this.#sources);
    return !list.plugins.some(({ type }) => gatewayPlugins.has(type));
  }
}

/** The stored configuration of a network. @throws CniError when this release cannot use it */
export function listOf(network: NetworkState): NetConfList {
  return parseNetConfList(network.conf, { source: `network ${network.displayName}` });
}

/** In staged mode an interface loses what plugins configured in the namespace around it. */
function checkStagedMode({ list, displayName }: ResolvedConf): void {
  const lost = list.plugins.flatMap(lostInStagedMode);
  if (lost.length === 0) return;
  throw new Error(
    `network ${displayName}: moving the interface into its container would lose: ${lost.join(", ")}; ` +
      "use -o plexus.mode=direct (Docker Engine 28 or later)",
  );
}

function lostInStagedMode({ type, raw: { ipam, sysctl } }: PluginConf): string[] {
  const hasSysctls = isJsonObject(sysctl) && Object.keys(sysctl).length > 0;
  return [
    ...(type === "sbr" ? ["the policy routes of plugin sbr"] : []),
    ...(type === "tuning" && hasSysctls ? ["the sysctls of plugin tuning"] : []),
    ...(isJsonObject(ipam) && ipam.type === "dhcp" ? ["the renewals of plugin dhcp"] : []),
  ];
}
