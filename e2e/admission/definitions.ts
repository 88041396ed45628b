/** A configuration, and what the policy says of it in a tenant's namespace. */
export interface DefinitionRow {
  readonly what: string;
  /** `spec.config`: text, or what is written as JSON. */
  readonly config: unknown;
  /** Part of the message; undefined where it is accepted. */
  readonly refused?: string;
  /** Whether Plexus's namespace may have it. */
  readonly isFree?: boolean;
}

const macvlan = { cniVersion: "1.0.0", name: "a", type: "macvlan", master: "eth1" };
const hostLocal = { type: "host-local", ranges: [[{ subnet: "10.1.0.0/24" }]] };
const list = (...plugins: readonly object[]) => ({ cniVersion: "1.0.0", name: "a", plugins });
const tuning = (sysctl: unknown) => list(macvlan, { type: "tuning", sysctl });
const many = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ dst: `10.0.${n}.0/24` }));

const notJson = "spec.config: not a JSON object";
const types = "each type must be one of bandwidth, dhcp,";
const ofNode = "a key that concerns the node is not allowed in this namespace";
const device = "a device of the host is not allowed";
const spelling = "keys of CNI must be spelled as in CNI";
const sysctl = "names of sysctl must begin with net.";
const meta = "a meta-plugin cannot be the plugin of a network";
const backslash = "a backslash is not allowed in this namespace";
const tenants = (refused: string) => ({ refused, isFree: true });

export const definitionRows: readonly DefinitionRow[] = [
  { what: "no configuration, which selects a file of the node", config: "" },
  { what: "white space", config: " \n" },
  { what: "a plugin", config: macvlan },
  { what: "a plugin, with white space", config: JSON.stringify(macvlan, undefined, 2) },
  {
    what: "a list of plugins with IPAM",
    config: list({ ...macvlan, ipam: hostLocal }, { type: "sbr" }),
  },
  {
    what: "every allowed plugin",
    config: list(
      ...["macvlan", "vlan", "dummy", "vrf", "tuning", "sbr", "bandwidth"].map((type) => ({
        type,
      })),
    ),
  },
  {
    what: "whereabouts",
    config: { ...macvlan, ipam: { type: "whereabouts", range: "fd00::/64", exclude: [] } },
  },
  { what: "200 routes", config: { ...macvlan, ipam: { ...hostLocal, routes: many(200) } } },
  {
    what: "numbers, null, true and false",
    config: {
      ...macvlan,
      mtu: 1500,
      vlan: -1.5e3,
      promisc: true,
      allmulti: false,
      dns: null,
      ipam: {},
    },
  },
  { what: "text of other scripts", config: { ...macvlan, description: "réseau ネット" } },
  {
    what: "sysctls of the network",
    config: tuning({
      "net.core.somaxconn": "500",
      "net/ipv4/conf/IFNAME/arp_filter": "1",
      "net.ipv4.ip_local_reserved_ports": "80,443",
    }),
  },
  {
    what: "no sysctl",
    config: list(macvlan, { type: "tuning", sysctl: null }, { type: "tuning", sysctl: {} }),
  },
  {
    what: "a capability named deviceID",
    config: { ...macvlan, capabilities: { deviceID: true, ips: true } },
  },
  { what: "two dots inside of a name", config: { ...macvlan, master: "br..0" } },
  { what: "another mode", config: { ...macvlan, mode: "bridge" } },
  {
    what: "128 KiB",
    config: { ...macvlan, x: "x".repeat(131_072 - JSON.stringify({ ...macvlan, x: "" }).length) },
  },
  { what: "text of a type's key", config: { ...macvlan, alias: "type" } },

  { what: "a comma too many", config: '{"type": "macvlan",}', refused: notJson },
  { what: "a missing comma", config: '{"name": "a" "type": "macvlan"}', refused: notJson },
  { what: "a missing colon", config: '{"type" "macvlan"}', refused: notJson },
  { what: "a missing bracket", config: '{"plugins": [{"type": "macvlan"}', refused: notJson },
  { what: "a missing quote", config: '{"type": "macvlan}', refused: notJson },
  { what: "single quotes", config: "{'type': 'macvlan'}", refused: notJson },
  { what: "a comment", config: '{"type": "macvlan"} // a', refused: notJson },
  { what: "YAML", config: "type: macvlan", refused: notJson },
  { what: "a list", config: [macvlan], refused: notJson },
  { what: "a text", config: '"macvlan"', refused: notJson },
  { what: "two objects", config: '{"type": "macvlan"}{}', refused: notJson },
  { what: "True", config: '{"type": "macvlan", "promisc": True}', refused: notJson },
  {
    what: "a number with a zero before it",
    config: '{"type": "macvlan", "mtu": 01500}',
    refused: notJson,
  },
  {
    what: "no type",
    config: { name: "a", master: "eth1" },
    refused: "names no plugin; add its type",
  },
  { what: "Plexus", config: { type: "plexus" }, refused: meta },
  { what: "Multus in a list", config: list(macvlan, { type: "multus-shim" }), refused: meta },
  {
    what: "Multus as IPAM, in other case",
    config: { ...macvlan, IPAM: { Type: "multus" } },
    refused: meta,
  },

  { what: "host-device", config: { type: "host-device", device: "eth0" }, ...tenants(types) },
  {
    what: "a plugin that is not allowed, in a list",
    config: list(macvlan, { type: "firewall" }),
    ...tenants(types),
  },
  {
    what: "an IPAM plugin that is not allowed",
    config: { ...macvlan, ipam: { type: "azure-ipam" } },
    ...tenants(types),
  },
  { what: "a type in other case", config: { ...macvlan, Type: "host-device" }, ...tenants(types) },
  {
    what: "a second type",
    config: '{"type": "macvlan", "type": "host-device"}',
    ...tenants(types),
  },
  {
    what: "a type with spaces before its colon",
    config: '{"type" \n: "host-device"}',
    ...tenants(types),
  },
  { what: "a type that is no text", config: { ...macvlan, ipam: { type: 1 } }, ...tenants(types) },
  { what: "a type that is a path", config: { type: "../macvlan" }, ...tenants(types) },
  {
    what: "a type hidden by an escape",
    config: '{"type": "macvlan", "\\u0074ype": "host-device"}',
    ...tenants(backslash),
  },
  { what: "a type with an escape", config: '{"type": "host\\u002ddevice"}', ...tenants(backslash) },
  { what: "IPAM in other case", config: { ...macvlan, IPAM: hostLocal }, ...tenants(spelling) },
  {
    what: "an allowed type in other case",
    config: { ...macvlan, TYPE: "macvlan" },
    ...tenants(spelling),
  },
  {
    what: "a letter that Go takes for an s",
    config: { ...macvlan, pluginſ: [] },
    ...tenants(spelling),
  },
  {
    what: "a directory",
    config: { ...macvlan, ipam: { ...hostLocal, dataDir: "etc" } },
    ...tenants(ofNode),
  },
  {
    what: "a kubeconfig",
    config: { ...macvlan, ipam: { type: "whereabouts", kubernetes: { kubeconfig: "x" } } },
    ...tenants(ofNode),
  },
  {
    what: "a lock's time",
    config: { ...macvlan, ipam: { type: "whereabouts", leader_lease_duration: 2e12 } },
    ...tenants(ofNode),
  },
  { what: "the node's gateway", config: { ...macvlan, isgateway: true }, ...tenants(ofNode) },
  { what: "all of a link", config: { ...macvlan, mode: "passthru" }, ...tenants(ofNode) },
  { what: "a bridge, which may be the cluster's", config: { type: "bridge" }, ...tenants(types) },
  {
    what: "a sysctl of the kernel",
    config: tuning({ "kernel.core_pattern": "x" }),
    ...tenants(sysctl),
  },
  {
    what: "a sysctl of the kernel behind one of the network",
    config: tuning({ "net.a}": "1", "kernel.x": "1" }),
    ...tenants(sysctl),
  },
  {
    what: "a sysctl that leaves net",
    config: tuning({ "net/../kernel/x": "1" }),
    ...tenants(sysctl),
  },
  { what: "sysctls that are no object", config: tuning(["kernel.x"]), ...tenants(sysctl) },
  {
    what: "sysctls in other case",
    config: list(macvlan, { type: "tuning", sysCtl: {} }),
    ...tenants(spelling),
  },
  { what: "a device", config: { ...macvlan, deviceID: "0000:00:1f.6" }, ...tenants(device) },
  {
    what: "a device in other case",
    config: { ...macvlan, hwAddr: "02:00:00:00:00:01" },
    ...tenants(device),
  },
  {
    what: "a device with a letter that Go takes for a k",
    config: { ...macvlan, "\u212aernelpath": "x" },
    ...tenants(device),
  },
];

/** `spec.config` of a row. */
export function configText({ config }: Pick<DefinitionRow, "config">): string {
  return typeof config === "string" ? config : JSON.stringify(config);
}
