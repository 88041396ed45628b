/** Configurations of networks of the reference plugins, as tests and the documentation use them. */

/** host-local addresses of one IPv4 subnet, `10.<net>.0.0/24`, and with `v6` one of IPv6. */
export function hostLocal(net: number, extra: { v6?: boolean; routes?: object[] } = {}): object {
  const ranges = [[{ subnet: `10.${net}.0.0/24` }]];
  if (extra.v6) ranges.push([{ subnet: `fd00:${net}::/64` }]);
  const routes = extra.routes === undefined ? {} : { routes: extra.routes };
  return { type: "host-local", ranges, ...routes };
}

/** Default routes of both families. */
export const defaultRoutes = [{ dst: "0.0.0.0/0" }, { dst: "::/0" }];

/** A bridge that is the pods' gateway. */
export function bridge(name: string, net: number, extra: object = {}): object {
  return list(name, {
    type: "bridge",
    bridge: `br${net}`,
    isGateway: true,
    ipam: hostLocal(net),
    ...extra,
  });
}

/** A routed veth pair. */
export function ptp(name: string, net: number, extra: object = {}): object {
  return list(name, { type: "ptp", ipam: hostLocal(net), ...extra });
}

/** Macvlan interfaces on `up0`, which the test makes. */
export function macvlan(name: string, net: number, extra: object = {}): object {
  return list(name, {
    type: "macvlan",
    master: "up0",
    mode: "bridge",
    ipam: hostLocal(net),
    ...extra,
  });
}

/** A configuration list of CNI 1.0.0, the newest that the plugins of Debian 12 and 13 speak. */
export function list(name: string, ...plugins: object[]): object {
  return { cniVersion: "1.0.0", name, plugins };
}

/** The list with more plugins at its end. */
export function chained(network: object, ...more: object[]): object {
  const { plugins } = network as { plugins: object[] };
  return { ...network, plugins: [...plugins, ...more] };
}
