import type { JsonObject } from "#lib/json.ts";

/** Plugins with what they need of an own network configuration. */
function plugin(type: string, network: string): JsonObject {
  if (type === "portmap") return { type, capabilities: { portMappings: true } };
  if (["ptp", "bridge", "host-device", "sriov"].includes(type)) {
    return { type, ipam: { type: "host-local", subnet: `10.${subnetOf(network)}.0.0/16` } };
  }
  return { type };
}

function subnetOf(network: string): number {
  return Object.keys(networks).indexOf(network) + 1;
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
  marked: ["bridge"],
} as const;
export type NetworkName = keyof typeof networks;

/** The resource of a network whose interfaces are devices, or that has a marker as a resource. */
export const resources: Partial<Record<NetworkName, string>> = {
  vf: "example.com/vf",
  marked: "bridge.network.kubevirt.io/br1",
};

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
}: {
  readonly defaultNetwork: NetworkName;
  readonly cniVersion: string;
  readonly name?: string;
}): JsonObject {
  return {
    cniVersion,
    name,
    type: "plexus",
    capabilities: { portMappings: true, "io.kubernetes.cri.pod-annotations": true },
    delegates: [conflist(defaultNetwork)],
  };
}
