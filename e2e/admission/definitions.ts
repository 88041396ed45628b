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

const bridge = { cniVersion: "1.0.0", name: "a", type: "bridge", bridge: "br0" };
const hostLocal = { type: "host-local", ranges: [[{ subnet: "10.1.0.0/24" }]] };
const list = (...plugins: readonly object[]) => ({ cniVersion: "1.0.0", name: "a", plugins });
const tuning = (sysctl: unknown) => list(bridge, { type: "tuning", sysctl });
const many = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ dst: `10.0.${n}.0/24` }));

const notJson = "spec.config: not a JSON object";
const types = "each type must be one of bridge, macvlan,";
const paths = "a path of the host is not allowed in this namespace";
const device = "a device of the host is not allowed";
const spelling = "keys of CNI must be spelled as in CNI";
const sysctl = "names of sysctl must begin with net.";
const meta = "a meta-plugin cannot be the plugin of a network";
const backslash = "a backslash is not allowed in this namespace";
const tenants = (refused: string) => ({ refused, isFree: true });

export const definitionRows: readonly DefinitionRow[] = [
  { what: "no configuration, which selects a file of the node", config: "" },
  { what: "white space", config: " \n" },
  { what: "a plugin", config: bridge },
  { what: "a plugin, with white space", config: JSON.stringify(bridge, undefined, 2) },
  {
    what: "a list of plugins with IPAM",
    config: list({ ...bridge, ipam: hostLocal }, { type: "sbr" }),
  },
  {
    what: "every allowed plugin",
    config: list(
      ...[
        "bridge",
        "macvlan",
        "ipvlan",
        "vlan",
        "ptp",
        "dummy",
        "vrf",
        "tuning",
        "sbr",
        "bandwidth",
      ].map((type) => ({ type })),
    ),
  },
  {
    what: "whereabouts",
    config: { ...bridge, ipam: { type: "whereabouts", range: "fd00::/64", exclude: [] } },
  },
  { what: "200 routes", config: { ...bridge, ipam: { ...hostLocal, routes: many(200) } } },
  {
    what: "numbers, null, true and false",
    config: {
      ...bridge,
      mtu: 1500,
      vlan: -1.5e3,
      isGateway: true,
      hairpinMode: false,
      dns: null,
      ipam: {},
    },
  },
  { what: "text of other scripts", config: { ...bridge, description: "réseau ネット" } },
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
    config: list(bridge, { type: "tuning", sysctl: null }, { type: "tuning", sysctl: {} }),
  },
  {
    what: "a capability named deviceID",
    config: { ...bridge, capabilities: { deviceID: true, ips: true } },
  },
  { what: "two dots inside of a name", config: { ...bridge, bridge: "br..0" } },
  { what: "a key that is a path", config: { ...bridge, args: { "/x": "1" } } },
  {
    what: "128 KiB",
    config: { ...bridge, x: "x".repeat(131_072 - JSON.stringify({ ...bridge, x: "" }).length) },
  },
  { what: "text of a type's key", config: { ...bridge, alias: "type" } },

  { what: "a comma too many", config: '{"type": "bridge",}', refused: notJson },
  { what: "a missing comma", config: '{"name": "a" "type": "bridge"}', refused: notJson },
  { what: "a missing colon", config: '{"type" "bridge"}', refused: notJson },
  { what: "a missing bracket", config: '{"plugins": [{"type": "bridge"}', refused: notJson },
  { what: "a missing quote", config: '{"type": "bridge}', refused: notJson },
  { what: "single quotes", config: "{'type': 'bridge'}", refused: notJson },
  { what: "a comment", config: '{"type": "bridge"} // a', refused: notJson },
  { what: "YAML", config: "type: bridge", refused: notJson },
  { what: "a list", config: [bridge], refused: notJson },
  { what: "a text", config: '"bridge"', refused: notJson },
  { what: "two objects", config: '{"type": "bridge"}{}', refused: notJson },
  { what: "True", config: '{"type": "bridge", "isGateway": True}', refused: notJson },
  {
    what: "a number with a zero before it",
    config: '{"type": "bridge", "mtu": 01500}',
    refused: notJson,
  },
  {
    what: "no type",
    config: { name: "a", bridge: "br0" },
    refused: "names no plugin; add its type",
  },
  { what: "Plexus", config: { type: "plexus" }, refused: meta },
  { what: "Multus in a list", config: list(bridge, { type: "multus-shim" }), refused: meta },
  {
    what: "Multus as IPAM, in other case",
    config: { ...bridge, IPAM: { Type: "multus" } },
    refused: meta,
  },

  { what: "host-device", config: { type: "host-device", device: "eth0" }, ...tenants(types) },
  {
    what: "a plugin that is not allowed, in a list",
    config: list(bridge, { type: "firewall" }),
    ...tenants(types),
  },
  {
    what: "an IPAM plugin that is not allowed",
    config: { ...bridge, ipam: { type: "azure-ipam" } },
    ...tenants(types),
  },
  { what: "a type in other case", config: { ...bridge, Type: "host-device" }, ...tenants(types) },
  { what: "a second type", config: '{"type": "bridge", "type": "host-device"}', ...tenants(types) },
  {
    what: "a type with spaces before its colon",
    config: '{"type" \n: "host-device"}',
    ...tenants(types),
  },
  { what: "a type that is no text", config: { ...bridge, ipam: { type: 1 } }, ...tenants(types) },
  { what: "a type that is a path", config: { type: "../bridge" }, ...tenants(types) },
  {
    what: "a type hidden by an escape",
    config: '{"type": "bridge", "\\u0074ype": "host-device"}',
    ...tenants(backslash),
  },
  { what: "a type with an escape", config: '{"type": "host\\u002ddevice"}', ...tenants(backslash) },
  { what: "IPAM in other case", config: { ...bridge, IPAM: hostLocal }, ...tenants(spelling) },
  {
    what: "an allowed type in other case",
    config: { ...bridge, TYPE: "bridge" },
    ...tenants(spelling),
  },
  {
    what: "a letter that Go takes for an s",
    config: { ...bridge, pluginſ: [] },
    ...tenants(spelling),
  },
  {
    what: "a path",
    config: { ...bridge, ipam: { ...hostLocal, dataDir: "/etc" } },
    ...tenants(paths),
  },
  { what: "a path in a list", config: { ...bridge, x: ["a", "/etc"] }, ...tenants(paths) },
  { what: "a relative path", config: { ...bridge, x: { y: "../etc" } }, ...tenants(paths) },
  {
    what: "a path that leaves its directory",
    config: { ...bridge, x: "a/../../etc" },
    ...tenants(paths),
  },
  { what: "the parent directory", config: { ...bridge, x: "a/.." }, ...tenants(paths) },
  { what: "a home directory", config: { ...bridge, x: "~root" }, ...tenants(paths) },
  { what: "a socket", config: { ...bridge, x: "unix:run/x" }, ...tenants(paths) },
  { what: "a file's URL", config: { ...bridge, x: "file:etc/x" }, ...tenants(paths) },
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
    config: list(bridge, { type: "tuning", sysCtl: {} }),
    ...tenants(spelling),
  },
  { what: "a device", config: { ...bridge, deviceID: "0000:00:1f.6" }, ...tenants(device) },
  {
    what: "a device in other case",
    config: { ...bridge, hwAddr: "02:00:00:00:00:01" },
    ...tenants(device),
  },
  {
    what: "a device with a letter that Go takes for a k",
    config: { ...bridge, "\u212aernelpath": "x" },
    ...tenants(device),
  },
];

/** `spec.config` of a row. */
export function configText({ config }: Pick<DefinitionRow, "config">): string {
  return typeof config === "string" ? config : JSON.stringify(config);
}
