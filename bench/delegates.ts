import type { JsonObject } from "#lib/json.ts";

/** The CNI version of every configuration here. */
export const cniVersion = "1.0.0";

/** A plugin and its configuration. */
type Plugin = JsonObject & { readonly type: string };

/** The networks that a pod is attached to: the default network first. */
export interface Delegates {
  readonly name: string;
  readonly plugins: readonly Plugin[];
}

function hostLocal(net: number): JsonObject {
  return { type: "host-local", ranges: [[{ subnet: `10.${net}.0.0/16` }]] };
}

function macvlan(net: number): Plugin {
  return { type: "macvlan", master: "up0", mode: "bridge", ipam: hostLocal(net) };
}

/** Plugins that attach nothing: what remains is the cost of calling them. */
export function noops(count: number, name = `noop${count}`): Delegates {
  return { name, plugins: Array.from({ length: count }, () => ({ type: "noop" })) };
}

/** ptp, and as many macvlans; bridge is not among them, as it sleeps while its port comes up. */
export function realPlugins(macvlans: number, name: string): Delegates {
  const plugins: Plugin[] = [{ type: "ptp", ipam: hostLocal(1) }];
  for (let nth = 0; nth < macvlans; nth++) plugins.push(macvlan(2 + nth));
  return { name, plugins };
}

/** The network's name, which is also its NetworkAttachmentDefinition's. */
export function networkName(delegates: Delegates, nth: number): string {
  return nth === 0 ? `${delegates.name}-default` : `${delegates.name}-net${nth}`;
}

/** A network as a configuration list. */
export function network(delegates: Delegates, nth: number): JsonObject {
  const name = networkName(delegates, nth);
  return { cniVersion, name, plugins: [pluginOf(delegates, nth)] };
}

/** A network as the configuration of its one plugin: what the plugin itself reads. */
export function singleConf(delegates: Delegates, nth: number): JsonObject {
  return { cniVersion, name: networkName(delegates, nth), ...pluginOf(delegates, nth) };
}

function pluginOf({ name, plugins }: Delegates, nth: number): Plugin {
  const plugin = plugins[nth];
  if (plugin === undefined) throw new Error(`${name} has no plugin ${nth}`);
  return plugin;
}

/** The value of a pod's networks annotation: all but the default network. */
export function annotationOf(delegates: Delegates): string {
  return delegates.plugins
    .slice(1)
    .map((_, nth) => networkName(delegates, nth + 1))
    .join(",");
}
