import { anyDestination, type IpFamily } from "#lib/ip.ts";
import type { JsonObject } from "#lib/json.ts";
import { gatewayOf } from "../world/leases.ts";

/** Plugins that have addresses allocated. */
const withIpam = new Set(["ptp", "bridge", "host-device", "sriov"]);

/** Plugins with what they need of an own network configuration. */
function plugin(type: string, network: NetworkName): JsonObject {
  if (type === "portmap") return { type, capabilities: { portMappings: true } };
  return withIpam.has(type) ? { type, ipam: ipam(network) } : { type };
}

/** Whether a plugin of the network has addresses allocated. */
export function hasAddresses(network: NetworkName): boolean {
  return networks[network].some((type) => withIpam.has(type));
}

function ipam(network: NetworkName): JsonObject {
  const families = routedFamilies(network);
  const [subnet = ""] = subnetsOf(network, [4]);
  if (families.length === 0) return { type: "host-local", subnet };
  return {
    type: "host-local",
    ranges: subnetsOf(network, families).map((each) => [{ subnet: each }]),
    routes: families.map((family) => ({ dst: anyDestination[family] })),
  };
}

function subnetsOf(network: NetworkName, families: readonly IpFamily[]): string[] {
  const number = Object.keys(networks).indexOf(siblings[network] ?? network) + 1;
  return families.map((family) => (family === 4 ? `10.${number}.0.0/16` : `fd00:${number}::/64`));
}

/** The networks of a history by their names, each with its chain of plugins. */
export const networks = {
  pods: ["ptp"],
  "pods-chained": ["ptp", "portmap"],
  storage: ["macvlan"],
  data: ["bridge"],
  tuned: ["bridge", "tuning"],
  outside: ["macvlan", "host-route"],
  strict: ["bridge", "sbr"],
  device: ["host-device"],
  vf: ["sriov"],
  rails: ["sriov"],
  marked: ["bridge"],
  "pods-routed": ["ptp", "portmap"],
  "pods-dual": ["ptp"],
  routed: ["bridge"],
  gateway: ["bridge"],
  "gateway-new": ["bridge", "tuning"],
  "gateway-dual": ["bridge"],
  mistyped: ["brigde"],
  forbidden: ["danger"],
  masterless: ["vlan"],
} as const;
export type NetworkName = keyof typeof networks;

/** The resource of a network whose interfaces are devices, or that has a marker as a resource. */
export const resources: Partial<Record<NetworkName, string>> = {
  vf: "example.com/vf",
  rails: "example.com/vf",
  marked: "bridge.network.kubevirt.io/br1",
};

/** How many devices a network attaches, one by each interface. */
export const deviceCounts: Partial<Record<NetworkName, number>> = { vf: 1, rails: 3 };

/** The families of networks whose IPAM has default routes. Only histories with hot-plug have them. */
const routed: Partial<Record<NetworkName, readonly IpFamily[]>> = {
  "pods-routed": [4],
  "pods-dual": [4, 6],
  routed: [4, 6],
  gateway: [4],
  "gateway-new": [4],
  "gateway-dual": [4, 6],
};

/** The cluster's ranges: all pods have addresses there. */
export const clusterRanges: Readonly<Record<IpFamily, string>> = {
  4: "10.0.0.0/8",
  6: "fd00::/16",
};

export function routedFamilies(network: NetworkName): readonly IpFamily[] {
  return routed[network] ?? [];
}

/** Networks that have the addresses and the gateway of another one. */
const siblings: Partial<Record<NetworkName, NetworkName>> = { "gateway-new": "gateway" };

/** The gateways of a network that has the default routes of an element's `default-route`. */
export function gatewaysOf(network: NetworkName): string[] {
  return subnetsOf(network, routedFamilies(network)).map(gatewayOf);
}

/** Whether elements name it with `default-route`. */
export function isGateway(network: NetworkName): boolean {
  return network.startsWith("gateway");
}

/** Whether a plugin of the network is not installed, for good, or the policy does not permit it. */
export function isInvalid(network: NetworkName): boolean {
  return network === "mistyped" || network === "forbidden";
}

/** The plugin that {@link permittedPlugins} lacks. */
export const forbiddenPlugin = "danger";
/** What definitions may contain. */
export const permittedPlugins = [...new Set<string>(Object.values(networks).flat())]
  .filter((type) => type !== forbiddenPlugin)
  .concat("host-local");

/** Whether its plugin is installed, and can never attach it. */
export function isRefused(network: NetworkName): boolean {
  return network === "masterless";
}

/** The names that any pod may request. */
export const requestable: readonly NetworkName[] = [
  "storage",
  "data",
  "tuned",
  "outside",
  "strict",
  "device",
];

/** Their plugins also get GC and STATUS. */
const currentNetworks: ReadonlySet<NetworkName> = new Set(["pods", "data", "strict"]);

/** A network's configuration list, or one of that name with the plugins of another network. */
export function conflist(
  name: NetworkName,
  like = name,
): JsonObject & { readonly plugins: JsonObject[] } {
  return {
    cniVersion: currentNetworks.has(name) ? "1.1.0" : "1.0.0",
    name,
    plugins: networks[like].map((type) => plugin(type, name)),
  };
}

/** With which the container runtime calls Plexus. */
export function runtimeConf({
  defaultNetwork,
  cniVersion,
  name = "plexus",
  isUpgraded = false,
}: {
  readonly defaultNetwork: NetworkName;
  readonly cniVersion: string;
  readonly name?: string;
  /** Whether the primary CNI has written it since its upgrade. @default false */
  readonly isUpgraded?: boolean;
}): JsonObject {
  const { plugins, ...list } = conflist(defaultNetwork);
  const [first, ...others] = plugins;
  return {
    cniVersion,
    name,
    type: "plexus",
    capabilities: { portMappings: true, "io.kubernetes.cri.pod-annotations": true },
    delegates: [{ ...list, plugins: [{ ...first, ...(isUpgraded && { mtu: 9001 }) }, ...others] }],
  };
}
