import { list } from "./networks.ts";
import { PlexusNode } from "./plexus-node.ts";
import { ScriptedPlugins } from "./scripted-plugins.ts";

/** The plugin types of a {@link scriptedNode}, one network each but the default's, which has two. */
export const scriptedTypes = ["default-first", "default-second", "alpha", "beta", "gamma"];

/** A node whose plugins are scripted ones. */
export interface ScriptedNode extends AsyncDisposable {
  readonly node: PlexusNode;
  readonly plugins: ScriptedPlugins;
}

/**
 * A node with the default network `default` (default-first, then default-second) and definitions
 * `alpha`, `beta` and `gamma` of a plugin each.
 */
export async function scriptedNode(options: { daemon?: boolean } = {}): Promise<ScriptedNode> {
  const node = await PlexusNode.create(options);
  const plugins = await ScriptedPlugins.create(node.lab, ...scriptedTypes);
  node.cniPath = [plugins.binDir];
  node.defaultNetwork = list("default", { type: "default-first" }, { type: "default-second" });
  for (const name of ["alpha", "beta", "gamma"])
    await node.nad(name, list(`net-${name}`, { type: name }));
  return { node, plugins, [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() };
}
