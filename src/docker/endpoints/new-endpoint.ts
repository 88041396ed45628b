import { enabledCapabilities, type NetConfList } from "#cni/conf/conf.ts";
import type { RequestOf } from "#docker/driver/requests.ts";
import { confOfEndpoint } from "#docker/networks/docker-ipam.ts";
import { listOf } from "#docker/networks/networks.ts";
import type { EndpointState, NetworkState } from "#docker/state.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { requestedCapabilities } from "#npwg/runtime-config.ts";
import { type EndpointOptions, parseEndpointOptions } from "./endpoint-options.ts";
import type { ChosenPorts } from "./host-ports.ts";

/** CNI_IFNAME in staged mode; dockerd renames the interface. */
const stagedIfName = "eth0";

/** The flag or option that requests a capability. */
const flags: Readonly<Record<string, string>> = {
  ips: "--driver-opt plexus.ips",
  mac: "--mac-address",
  bandwidth: "--driver-opt plexus.bandwidth",
};

interface NewEndpointContext {
  readonly bootId: string;
  /** ISO 8601. */
  readonly now: string;
  /** CNI_NETNS in staged mode. */
  readonly stagingNetns: string;
  readonly choosePorts: (published: EndpointOptions["published"]) => Promise<ChosenPorts>;
  readonly warn: (message: string) => void;
}

/** Plans how an endpoint is attached. @throws Error when the network cannot provide it */
export async function newEndpoint(
  network: NetworkState,
  request: RequestOf<"NetworkDriver.CreateEndpoint">,
  context: NewEndpointContext,
): Promise<EndpointState> {
  const { mode } = network.options;
  const options = parseEndpointOptions(request.Options);
  const list = listOf(network);
  const { Address, AddressIPv6, MacAddress } = request.Interface;
  const requested = omitUndefined({ Address, AddressIPv6, MacAddress });
  if ((Address ?? AddressIPv6) !== undefined && options.ips.length > 0) {
    throw new Error(
      "--driver-opt plexus.ips: Docker's IPAM chooses the addresses of this network; use --ip, or " +
        "create the network with --ipam-driver null",
    );
  }
  const ports = await context.choosePorts(portsToPublish(list, options, context));
  // In staged mode dockerd sets the MAC when it moves the interface.
  const setsMac = mode === "direct" || enabledCapabilities(list).has("mac");
  const wishes = omitUndefined({
    ips: options.ips.length === 0 ? undefined : options.ips,
    mac: setsMac ? MacAddress : undefined,
    portMappings: ports.portMappings.length === 0 ? undefined : ports.portMappings,
    bandwidth: options.bandwidth,
  });
  const runtimeConfig = capabilityArgs(list, network.displayName, wishes);
  return {
    schemaVersion: 1,
    networkId: request.NetworkID,
    id: request.EndpointID,
    displayName: network.displayName,
    mode,
    bootId: context.bootId,
    phase: "creating",
    since: context.now,
    ifName: stagedIfName,
    netns: mode === "staged" ? context.stagingNetns : "",
    conf: {
      cniVersion: "1.0.0",
      name: list.name,
      type: "plexus",
      delegates: [confOfEndpoint(network, requested)],
      runtimeConfig,
    },
    ...ports,
    requested,
    ...omitUndefined({ wantedIfName: options.ifName }),
  };
}

/** A network that cannot publish ports ignores them: Docker requests them on each network. */
function portsToPublish(
  list: NetConfList,
  { published }: EndpointOptions,
  { warn }: NewEndpointContext,
): EndpointOptions["published"] {
  if (published.length === 0 || enabledCapabilities(list).has("portMappings")) return published;
  warn(`no plugin of network ${list.name} has the capability portMappings: it publishes no ports`);
  return [];
}

type Wishes = Partial<Parameters<typeof requestedCapabilities>[0]>;

function capabilityArgs(list: NetConfList, name: string, wishes: Wishes): JsonObject {
  const args = requestedCapabilities({ namespace: "", name, position: 1, ...wishes });
  const enabled = enabledCapabilities(list);
  const unserved = Object.keys(args).find((key) => !enabled.has(key));
  if (unserved === undefined) return args;
  throw new Error(
    `${flags[unserved] ?? unserved}: no plugin of network ${name} has the capability ${unserved}`,
  );
}
