/** Reference plugins that leave nothing but their interface, and what their IPAM plugin keeps. */
export const interfacePlugins: ReadonlySet<string> = new Set(
  "bridge dummy ipvlan macvlan ptp sbr tap vlan vrf".split(" "),
);

/** Reference plugins that ignore the device of their network, which every plugin gets, as with Multus. */
export const deviceIgnoringPlugins: ReadonlySet<unknown> = new Set([
  ...interfacePlugins,
  ...["bandwidth", "firewall", "loopback", "portmap", "tuning"],
]);
