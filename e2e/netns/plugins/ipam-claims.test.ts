import { copyFile, mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { bridge } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test as nodeTest } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";
import { cniPluginDir, repositoryRoot } from "../../support/paths.ts";

const test = nodeTest.extend("daemonConfig", { scope: "file" }, { checkDelegates: "all" });

test.beforeAll(async ({ idleNode: node }) => {
  await mkdir(binDir(node));
  const plugin = join(repositoryRoot, "e2e/fixtures/claim-ipam.sh");
  await copyFile(plugin, join(binDir(node), "claim-ipam"));
  node.cniPath = [binDir(node), cniPluginDir()];
  node.defaultNetwork = bridge("default", 74);
  await node.nad("lan", bridge("lan", 75, { isGateway: false, ipam: { type: "claim-ipam" } }));
});

const binDir = ({ lab }: PlexusNode): string => join(lab.dir, "claims-bin");

/** A virtual machine's pod: each start makes another one. */
function launcher(
  node: PlexusNode,
  name: string,
  { claim = "vm.lan", namespace = "default" } = {},
): Promise<TestPod> {
  const networks = [{ name: "lan", namespace: "default", "ipam-claim-reference": claim }];
  return node.pod(name, { namespace, networks });
}

async function addressOf(pod: TestPod): Promise<string[]> {
  await pod.mustAdd();
  return pod.addresses("net1");
}

/** The plugin's executions for a pod: command, namespace and claim. */
async function callsFor(node: PlexusNode, { containerId }: TestPod): Promise<string[]> {
  const lines = (await readFile(join(binDir(node), "calls"), "utf8")).split("\n");
  return lines
    .filter((line) => line.includes(` ${containerId} `))
    .map((line) => line.replace(` ${containerId}`, ""));
}

test("a pod of another container ID gets the address of its IPAMClaim, which is one of its namespace", async ({
  node,
}) => {
  const first = await launcher(node, "first");
  const address = await addressOf(first);
  await first.mustCheck();
  await first.mustDel();
  expect(await addressOf(await launcher(node, "neighbor", { claim: "other.lan" }))).not.toEqual(
    address,
  );
  const foreign = await launcher(node, "foreign", { namespace: "shop" });
  expect(await addressOf(foreign)).not.toEqual(address);
  const second = await launcher(node, "second");
  expect(await addressOf(second)).toEqual(address);
  const calls = ["ADD", "CHECK", "DEL"].map((command) => `${command} default vm.lan`);
  expect(await callsFor(node, first)).toEqual(calls);
  expect(await callsFor(node, foreign)).toEqual(["ADD shop vm.lan"]);
});

test.for([
  ["another-engine", true],
  ["no-engine", false],
] as const)(
  "the DEL by %s passes the claim of a pod that is gone",
  async ([engine, isRun], { node }) => {
    const pod = await launcher(node, engine);
    await pod.mustAdd();
    await rm(join(node.manifestsDir, `pod-default-${pod.name}.yaml`));
    await node.stopDaemon("SIGKILL");
    if (isRun) await node.startDaemon();
    await pod.mustDel();
    expect(await callsFor(node, pod)).toEqual(["ADD default vm.lan", "DEL default vm.lan"]);
    if (!isRun) await node.startDaemon();
  },
);

test("a name that no claim can have fails the ADD before anything is attached", async ({
  node,
}) => {
  const pod = await launcher(node, "wrong", { claim: "VM_1" });
  expect(errorOf(await pod.add()).msg).toContain(
    `network "default/lan": key "ipam-claim-reference": must be a DNS-1123 subdomain (a-z, 0-9, '-' and '.'), got "VM_1"`,
  );
});
