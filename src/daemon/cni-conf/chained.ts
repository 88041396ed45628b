import { isDeepStrictEqual } from "node:util";
import type { NetConfList } from "#cni/conf/conf.ts";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";

/*
 * An agent may have its plugin in the primary CNI's file too: some agents patch every file, others
 * the first one, which was the primary's before Plexus came. A plugin must run once per pod, so
 * the default network leaves it out when the container runtime runs it behind Plexus's.
 */

/** What runs behind Plexus's plugin, and what was left out of the default network until now. */
export interface Elsewhere {
  readonly chained: readonly PluginConf[];
  readonly omitted: readonly string[];
}

/** Nothing runs behind Plexus. */
export const nowhereElse: Elsewhere = { chained: [], omitted: [] };

/**
 * Leaves out of the primary's list what runs behind Plexus. What was left out once stays out until
 * the primary's file loses it: Istio's agent removes its plugin only from the file that it patched
 * last, so what it leaves in the primary's file would come back, without its executable.
 */
export function withoutElsewhere(
  list: NetConfList,
  elsewhere: Elsewhere,
): { readonly list: NetConfList; readonly omitted: readonly string[] } {
  const isElsewhere = (plugin: PluginConf): boolean =>
    elsewhere.omitted.includes(plugin.type) ||
    elsewhere.chained.some((other) => isSamePlugin(plugin, other));
  const omitted = new Set(list.plugins.filter(isElsewhere).map(({ type }) => type));
  const plugins = list.plugins.filter(({ type }) => !omitted.has(type));
  // A default network without plugins would fail every pod.
  if (plugins.length === 0 || omitted.size === 0) return { list, omitted: [] };
  return { list: { ...list, plugins }, omitted: [...omitted].sort() };
}

/** The types that a default network leaves out whose files plexusd does not know. */
export function namedTypes(chained: readonly PluginConf[]): string[] {
  return chained.flatMap(({ type, raw }) => (typeof raw.name === "string" ? [type] : [])).sort();
}

/** Agents name their plugin. Others of one type may be there twice, with different settings. */
function isSamePlugin(a: PluginConf, b: PluginConf): boolean {
  if (a.type !== b.type) return false;
  return typeof a.raw.name === "string"
    ? a.raw.name === b.raw.name
    : isDeepStrictEqual(a.raw, b.raw);
}
