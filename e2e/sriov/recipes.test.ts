import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { expect } from "vitest";
import { parseAllDocuments } from "yaml";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { bridgesOf, expectShown, type Step, stepsOf } from "../cluster/scenarios/pages/steps.ts";
import { codeBlocks } from "../support/markdown.ts";
import type { PlexusNode } from "../support/node/plexus-node.ts";
import { cniPluginDir, distPath, nodeBinary, repositoryRoot } from "../support/paths.ts";
import { waitUntil } from "../support/wait.ts";
import { putRecipe, type RecipeObject, uidOf } from "./recipe-objects.ts";
import { test } from "./test.ts";
import { makeVirtualFunctions, virtualFunctions } from "./virtual-functions.ts";

/** The recipes of docs/user/networks.md that need this kernel, and the networks of their pods. */
const recipes = [
  ["SR-IOV", ["default/fast net1"]],
  ["Device claims", ["default/claimed net1"]],
  ["Bridge with VLAN", ["default/vlan-10 net1", "default/vlan-20 net2"]],
  ["Bond", ["default/member port1", "default/member port2", "default/bonded bond0"]],
] as const;

/** Has a script in place of the plugin bond. */
const ownPlugins = join(import.meta.dirname, "plugins");

test.beforeAll(async () => {
  await makeVirtualFunctions(4);
  // The module makes a bond when it is loaded, which would look like a leftover.
  await execa("modprobe", ["bonding", "max_bonds=0"]);
});

test.for(recipes)(
  "%s: the recipe attaches its pod, with the output that the page shows, and DEL leaves nothing",
  async ([heading, networks], { api, kubelet, node }) => {
    node.cniPath = [ownPlugins, process.env.PLEXUS_GUEST_PLUGINS ?? "", cniPluginDir()];
    await node.lab.addUplink("net0");
    const functions = await virtualFunctions();
    const steps = stepsOf(codeBlocks(await recipe(heading)));
    const yaml = steps.filter(isYaml).map(({ text }) => text);
    const objects = parseAllDocuments(yaml.join("---\n")).map(
      (each) => each.toJS() as RecipeObject,
    );
    const device = functions[0]?.pciAddress ?? "";
    const name = putRecipe(objects, { api, kubelet, device });
    const pod = await node.pod(name, { uid: uidOf(name) });
    const before = await node.hostState();

    await pod.mustAdd();
    const status = await waitUntil("the network-status is published", () => {
      const { metadata } = api.objects("pods").get(`default/${name}`) as RecipeObject;
      return metadata.annotations?.[networkStatusAnnotation];
    });
    const attached = JSON.parse(status) as { name: string; interface: string }[];
    expect(attached.slice(1).map((each) => `${each.name} ${each.interface}`)).toEqual(networks);
    for (const step of steps.filter((each) => !isYaml(each)))
      expectShown(step, await runStep(node, step));

    await pod.mustDel();
    for (const bridge of bridgesOf(yaml.join())) await node.lab.run("ip", "link", "delete", bridge);
    expect(await node.changesSince(before)).toEqual([]);
    expect(await virtualFunctions()).toEqual(functions);
    await node.lab.run("ip", "link", "delete", "net0");
  },
);

const isYaml = ({ info }: Step): boolean => info.startsWith("yaml");

/** The text below a heading. @throws Error when the page has no such heading */
async function recipe(heading: string): Promise<string> {
  const page = await readFile(join(repositoryRoot, "docs/user/networks.md"), "utf8");
  const found = page.split(/^##+ /m).find((text) => text.startsWith(`${heading}\n`));
  if (found === undefined) throw new Error(`docs/user/networks.md has no recipe "${heading}"`);
  return found;
}

/** Runs a command of the page on the node. Pods are network namespaces, and Plexus runs outside of pods. */
function runStep(node: PlexusNode, { text }: Step): Promise<string> {
  const plexusctl = `${nodeBinary()} ${distPath("plexusctl.js")}`;
  const kubectl = `kubectl() {
    case "$1" in
    exec) ip netns exec "ns-$2" "\${@:4}" ;;
    plexus) ${plexusctl} "\${@:2}" --socket ${node.socketPath} ;;
    esac
  }`;
  return node.lab.run("bash", "-euo", "pipefail", "-c", `${kubectl}\n${text}`);
}
