import { test as plainTest } from "vitest";
import { list } from "../networks.ts";
import { PlexusNode } from "./plexus-node.ts";
import { ScriptedPlugins } from "./scripted-plugins.ts";

/**
 * Tests on a node of the file's own, with the reference plugins. What the whole file needs, such as networks, goes
 * into its `test.beforeAll`; `daemonConfig` is overridden with `test.extend`.
 */
export const test = plainTest
  /** plexusd's configuration file; without keys there is none. */
  .extend("daemonConfig", { scope: "file" }, {} as object)
  /** The node before its daemon is started, for what a daemon has to find at its start. */
  .extend("idleNode", { scope: "file" }, async ({ daemonConfig }, { onCleanup }) => {
    const node = await PlexusNode.create({ daemonConfig });
    onCleanup(() => node[Symbol.asyncDispose]());
    return node;
  })
  /** The node with a daemon that serves. */
  .extend("node", { scope: "file" }, async ({ idleNode }) => {
    await idleNode.startDaemon();
    return idleNode;
  });

/**
 * The same with scripted plugins: the default network `default` (default-first, then default-second) and definitions
 * `alpha`, `beta` and `gamma`, of one plugin each. After every test all plugins are well-behaved again and have
 * forgotten their executions.
 */
export const scriptedTest = test
  .extend("plugins", { scope: "file", auto: true }, async ({ idleNode: node }) => {
    const types = ["default-first", "default-second", "alpha", "beta", "gamma"];
    const plugins = await ScriptedPlugins.create(node.lab, ...types);
    node.cniPath = [plugins.binDir];
    node.defaultNetwork = list("default", { type: "default-first" }, { type: "default-second" });
    for (const name of ["alpha", "beta", "gamma"])
      await node.nad(name, list(`net-${name}`, { type: name }));
    return plugins;
  })
  .extend("resetPlugins", { auto: true }, ({ plugins }, { onCleanup }) => {
    onCleanup(() => plugins.reset());
  })
  /** A pod of the test's own that asks for the networks `alpha` and `beta`. */
  .extend("pod", ({ node }) => node.newPod({ networks: "alpha,beta" }));

/** The calls that attach the scripted default network and then these networks, as net1, net2 and so on. */
export function attachOrder(...networks: string[]): string[] {
  const chain = ["default-first", "default-second"].map((type) => `ADD ${type}/eth0`);
  return [...chain, ...networks.map((type, index) => `ADD ${type}/net${index + 1}`)];
}

/** The calls that detach them again. */
export function detachOrder(...networks: string[]): string[] {
  return attachOrder(...networks)
    .map((line) => line.replace("ADD", "DEL"))
    .toReversed();
}
