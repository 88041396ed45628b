import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import type { RequestOf } from "#docker/driver/requests.ts";
import { DriverError } from "#docker/driver-error.ts";
import type { Collection } from "#docker/json-files.ts";
import type { NetworkState } from "#docker/state.ts";
import { parseNetworkOptions } from "./network-options.ts";
import { confOf, type NetworkSources, resolveNetwork } from "./resolve-network.ts";
import { checkStagedMode } from "./staged-limits.ts";

/** Plugins that give one of the network's addresses to the host, as the gateway of containers. */
const gatewayPlugins: ReadonlySet<string> = new Set(["bridge", "ptp"]);

/** The networks of the engine that this driver serves. */
export class Networks {
  readonly #stored: Collection<NetworkState>;
  readonly #sources: NetworkSources;

  constructor(stored: Collection<NetworkState>, sources: NetworkSources) {
    this.#stored = stored;
    this.#sources = sources;
  }

  /**
   * Resolves a network and keeps it. Repeated for the same network it resolves it anew: swarm creates
   * networks on a node when they are used there first.
   * @throws DriverError, CniError or Error when the network cannot be used
   */
  async create(request: RequestOf<"NetworkDriver.CreateNetwork">): Promise<void> {
    const options = parseNetworkOptions(request.Options);
    const resolved = await resolveNetwork(options, this.#sources);
    if (options.mode === "staged") checkStagedMode(resolved.list, resolved.displayName);
    await this.#stored.put(request.NetworkID, {
      schemaVersion: 1,
      id: request.NetworkID,
      displayName: resolved.displayName,
      options,
      conf: confOf(resolved),
      ipv4: request.IPv4Data.map(gatewayOnly),
      ipv6: request.IPv6Data.map(gatewayOnly),
    });
  }

  /** Forgets a network. One that is not known is no error. */
  remove(id: string): Promise<void> {
    return this.#stored.remove(id);
  }

  /** @throws DriverError when the network is not known */
  get(id: string): NetworkState {
    const network = this.#stored.get(id);
    if (network !== undefined) return network;
    throw new DriverError(`network ${id} is not known: create it again with docker network create`);
  }

  /**
   * Whether the engine need not reserve a gateway's address of its own. Where a plugin takes that address,
   * the first container would get it too.
   */
  async needsNoGateway(options: Readonly<Record<string, unknown>>): Promise<boolean> {
    const parsed = parseNetworkOptions(options);
    if (parsed.gateway !== "none" && !parsed.internal) return false;
    const { list } = await resolveNetwork(parsed, this.#sources);
    return !list.plugins.some(({ type }) => gatewayPlugins.has(type));
  }
}

/** The configuration of a network that is kept. @throws CniError when it cannot be used (any more) */
export function listOf(network: NetworkState): NetConfList {
  return parseNetConfList(network.conf, { source: `network ${network.displayName}` });
}

function gatewayOnly(data: RequestOf<"NetworkDriver.CreateNetwork">["IPv4Data"][number]) {
  const { AddressSpace, Gateway, Pool } = data;
  return {
    ...(AddressSpace === undefined ? {} : { AddressSpace }),
    ...(Gateway === undefined ? {} : { Gateway }),
    ...(Pool === undefined ? {} : { Pool }),
  };
}
