import { enabledCapabilities, type NetConfList } from "#cni/conf/conf.ts";
import type { RequestOf } from "#docker/driver/requests.ts";
import { DriverError } from "#docker/driver-error.ts";
import { gatewayAddress, withDockerAddresses } from "#docker/networks/docker-ipam.ts";
import { listOf } from "#docker/networks/networks.ts";
import type { EndpointState, NetworkState } from "#docker/state.ts";
import { covers, tryParseCidr } from "#lib/ip.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { requestedCapabilities } from "#npwg/runtime-config.ts";
import type { PortMapping } from "#npwg/selection/network-selection.ts";
import { type EndpointOptions, parseEndpointOptions } from "./endpoint-options.ts";
import type { ChosenPorts } from "./host-ports.ts";

type CreateEndpoint = RequestOf<"NetworkDriver.CreateEndpoint">;

/** CNI_IFNAME while the interface is prepared; the engine renames it. */
const stagedIfName = "eth0";

/** The flag or option that asks for a capability. */
const asked: Readonly<Record<string, string>> = {
  ips: "--driver-opt plexus.ips",
  mac: "--mac-address",
  bandwidth: "--driver-opt plexus.bandwidth",
};

/** What {@link planEndpoint} needs beside the network and the request. */
export interface PlanContext {
  readonly bootId: string;
  /** ISO 8601. */
  readonly now: string;
  /** CNI_NETNS of the staged mode. */
  readonly stagingNetns: string;
  readonly choosePorts: (published: EndpointOptions["published"]) => Promise<ChosenPorts>;
  readonly warn: (message: string) => void;
}

/**
 * Decides how an endpoint is attached; nothing is executed yet.
 * @throws DriverError when the network cannot give what the container asks for
 */
export async function planEndpoint(
  network: NetworkState,
  request: CreateEndpoint,
  context: PlanContext,
): Promise<EndpointState> {
  const options = parseEndpointOptions(request.Options);
  const list = listOf(network);
  const { Address, AddressIPv6, MacAddress } = request.Interface;
  const requested = omitUndefined({ Address, AddressIPv6, MacAddress });
  refuseConflicts({ network, requested, options });
  const ports = await context.choosePorts(publishedBy(list, options, context));
  const { portMappings } = ports;
  const runtimeConfig = capabilityArgs(list, { network, requested, options, portMappings });
  return {
    schemaVersion: 1,
    networkId: request.NetworkID,
    id: request.EndpointID,
    displayName: network.displayName,
    mode: network.options.mode,
    bootId: context.bootId,
    phase: "creating",
    since: context.now,
    ifName: stagedIfName,
    netns: network.options.mode === "staged" ? context.stagingNetns : "",
    conf: {
      cniVersion: "1.0.0",
      name: list.name,
      type: "plexus",
      delegates: [delegate(network, requested)],
      runtimeConfig,
    },
    ...ports,
    requested,
    ...(options.ifName === undefined ? {} : { wantedIfName: options.ifName }),
  };
}

/** What of an endpoint decides about its runtimeConfig. */
interface Wishes {
  readonly network: NetworkState;
  readonly requested: EndpointState["requested"];
  readonly options: EndpointOptions;
}

function refuseConflicts({ requested, options }: Wishes): void {
  const isChosen = requested.Address !== undefined || requested.AddressIPv6 !== undefined;
  if (isChosen && options.ips.length > 0) {
    throw new DriverError(
      "--driver-opt plexus.ips: Docker's IPAM chooses the addresses of this network; use --ip, or create the network with --ipam-driver null",
    );
  }
}

/**
 * The ports that a network publishes. The engine asks for a container's ports on each of its networks, so that
 * one that cannot publish any is no mistake; its own drivers pass them over, too.
 */
function publishedBy(
  list: NetConfList,
  { published }: EndpointOptions,
  { warn }: PlanContext,
): EndpointOptions["published"] {
  if (published.length === 0 || enabledCapabilities(list).has("portMappings")) return published;
  warn(`no plugin of network ${list.name} has the capability portMappings: it publishes no ports`);
  return [];
}

function capabilityArgs(
  list: NetConfList,
  wishes: Wishes & { readonly portMappings: readonly PortMapping[] },
): JsonObject {
  const { network, requested, options, portMappings } = wishes;
  const enabled = enabledCapabilities(list);
  // In the staged mode the engine sets the MAC itself when it moves the interface.
  const setsMac = network.options.mode === "direct" || enabled.has("mac");
  const args = requestedCapabilities({
    namespace: "",
    name: network.displayName,
    position: 1,
    ...omitUndefined({
      ips: options.ips.length === 0 ? undefined : options.ips,
      mac: setsMac ? requested.MacAddress : undefined,
      portMappings: portMappings.length === 0 ? undefined : portMappings,
      bandwidth: options.bandwidth,
    }),
  });
  const unserved = Object.keys(args).find((key) => !enabled.has(key));
  if (unserved === undefined) return args;
  throw new DriverError(
    `${asked[unserved] ?? unserved}: no plugin of network ${network.displayName} has the capability ${unserved}`,
  );
}

function delegate(network: NetworkState, requested: EndpointState["requested"]): JsonObject {
  const { Address: address, AddressIPv6: addressIPv6 } = requested;
  if (address === undefined && addressIPv6 === undefined) return network.conf;
  const gateway = gatewayFor(network.ipv4, address);
  const gatewayIPv6 = gatewayFor(network.ipv6, addressIPv6);
  return withDockerAddresses(
    network.conf,
    omitUndefined({ address, addressIPv6, gateway, gatewayIPv6 }),
  );
}

/** The gateway of the pool that an address is from. */
function gatewayFor(pools: NetworkState["ipv4"], address: string | undefined): string | undefined {
  const ip = address === undefined ? undefined : tryParseCidr(address)?.address;
  const own = pools.find(({ Pool = "" }) => {
    const pool = tryParseCidr(Pool);
    return ip !== undefined && pool !== undefined && covers(pool, ip);
  });
  return gatewayAddress(own?.Gateway);
}
