/** One of the three networks that every pod of the matrix is attached to. */
export interface Network {
  readonly ifName: string;
  /** The name of its definition; the default network has none. */
  readonly nad?: string;
  /** Its chain, in the order of ADD; the first plugin has the address plugin. */
  readonly plugins: readonly { readonly type: string }[];
}

/** The address plugin of all networks: a grandchild of the caller. */
export const ipamType = "host-local";

/** fixtures/host-address.c; all other plugins are the reference plugins. */
export const hostAddressType = "host-address";

function addresses(net: number, ...more: readonly string[]): object {
  const subnets = [`10.${net}.0.0/16`, ...more];
  return { type: ipamType, ranges: subnets.map((subnet) => [{ subnet }]) };
}

function plugin(type: string, rest: object): { readonly type: string } {
  return { type, ...rest };
}

const limits = {
  ingressRate: 8_000_000,
  ingressBurst: 400_000,
  egressRate: 8_000_000,
  egressBurst: 400_000,
};

/** Together they leave links, IPv4 and IPv6 addresses and routes, leases, firewall rules, queues and ifb devices. */
export const networks: readonly [Network, ...Network[]] = [
  {
    ifName: "eth0",
    plugins: [
      // No ipMasq: ptp itself leaves those rules behind when its namespace is gone before the DEL.
      plugin("ptp", { ipam: addresses(71, "fd00:71::/64") }),
      plugin("portmap", { capabilities: { portMappings: true } }),
    ],
  },
  {
    ifName: "net1",
    nad: "second",
    plugins: [
      plugin("macvlan", { master: "up0", mode: "bridge", ipam: addresses(72) }),
      plugin(hostAddressType, {}),
    ],
  },
  {
    ifName: "net2",
    nad: "third",
    plugins: [
      plugin("bridge", { bridge: "chaos0", ipam: addresses(73) }),
      plugin("bandwidth", limits),
    ],
  },
];

/** A network that an edit gives a pod in another one's place. */
export const spareNetwork: Network & { readonly nad: string } = {
  ifName: "",
  nad: "fourth",
  plugins: [
    plugin("bridge", { bridge: "chaos0", ipam: addresses(75) }),
    plugin("bandwidth", limits),
  ],
};

/** A network as a configuration list. */
export function confList(network: Network): object {
  return { cniVersion: "1.0.0", name: network.nad ?? "default", plugins: network.plugins };
}

/** The plugin types that are installed, with the address plugin. */
export const pluginTypes: readonly string[] = [
  ...networks.flatMap((network) => network.plugins.map((p) => p.type)),
  ipamType,
];
