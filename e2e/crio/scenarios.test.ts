import { readFile, writeFile } from "node:fs/promises";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { recordFileName } from "#lib/files/state-files.ts";
import { nad } from "../support/node/manifests.ts";
import { waitUntil } from "../support/wait.ts";
import { CrioNode } from "./node.ts";
import type { CrioPod } from "./pod.ts";
import { prepareCrioTools } from "./tools.ts";

const conf = "/etc/cni/net.d/00-plexus.conflist";
const address = /^10\.244\.0\.\d+$/;

/** A separate bridge without addresses, as its MAC address changes with its pods. */
const storage = { cniVersion: "1.0.0", name: "storage", type: "bridge", bridge: "storage0" };

/** The kinds that a running pod must show, so that a check that finds nothing is meaningful. */
const madeByPods = ["address leases", "attachment records", "cached results", "links"];

/** The same with a plugin whose DEL fails while this file exists. */
const flaky = { ...storage, name: "flaky", type: "flaky", bridge: "flaky0" };
const flakyFails = "/run/flaky-fails";
const flakyPlugin = `#!/bin/sh
if [ "$CNI_COMMAND" = DEL ] && [ -e ${flakyFails} ]; then
  echo '{"cniVersion":"1.0.0","code":117,"msg":"switched off"}'
  exit 1
fi
exec /opt/cni/bin/bridge
`;

// Builds CRI-O from source if the cache has none.
beforeAll(async () => void (await prepareCrioTools()));

/** A node whose CRI-O has only the primary CNI. */
async function startNode(): Promise<CrioNode> {
  const node = await CrioNode.create();
  onTestFinished(() => node[Symbol.asyncDispose]());
  await node.manifest("networks", nad("storage", storage), nad("flaky", flaky));
  await writeFile(node.at("opt/cni/bin/flaky"), flakyPlugin, { mode: 0o755 });
  return node;
}

/** A node whose CRI-O calls Plexus. */
async function startPlexusNode(): Promise<CrioNode> {
  const node = await startNode();
  await node.startPlexusd();
  return node;
}

/** How {@link CrioNode.remains} names a pod's record. */
function recordOf({ id }: CrioPod): string {
  return `attachment records: ./${recordFileName({ containerId: id, ifName: "eth0" })}`;
}

test("a pod gets its networks, CHECK after ADD succeeds, and DEL leaves nothing", async () => {
  const node = await startPlexusNode();
  const pod = await node.runPod("web", "storage");
  expect(await pod.links()).toEqual(["eth0", "net1"]);
  expect(await pod.ip()).toMatch(address);
  const kinds = (await node.remains()).map((line) => line.split(":")[0]);
  expect([...new Set(kinds)].sort()).toEqual(madeByPods);
  await pod.remove();
  const own = node.calls().filter((call) => call.endsWith("web"));
  expect(own).toEqual(["ADD web", "CHECK web", "DEL web"]);
  expect(await node.remains()).toEqual([]);
});

test("twelve pods that start at once all start, although the MAC address of their bridge changes", async () => {
  const node = await startPlexusNode();
  // While the first pods give the default network's bridge its address, its MAC address changes, too;
  // its CHECK then fails, also without Plexus.
  const first = await node.runPod("first");
  const names = Array.from({ length: 12 }, (_, index) => `together-${index}`);
  const together = names.map((name) => node.runPod(name, "storage"));
  const pods = [first, ...(await Promise.all(together))];
  await Promise.all(pods.map((pod) => pod.remove()));
  expect(await node.remains()).toEqual([]);
});

test("CRI-O is ready for pods once plexusd is, and has then collected attachments without a pod", async () => {
  const node = await startPlexusNode();
  await node.runtime.stop();
  await attachWithoutCrio(node, "forgotten");
  expect(await node.remains()).not.toEqual([]);
  await node.stopPlexusd();
  await node.runtime.start(node.host);
  expect(await node.isNetworkReady()).toBe(false);
  await node.startPlexusd();
  await node.waitUntilNetworkIsReady();
  // plexusd logs a call after its answer.
  await waitUntil("plexusd has logged the GC", () => node.calls().includes("GC"));
  expect(node.calls()).toContain("STATUS");
  expect(await node.remains()).toEqual([]);
});

test("pods that started before Plexus keep their network when CRI-O restarts, until they are removed", async () => {
  const node = await startNode();
  const before = await node.runPod("before");
  await node.startPlexusd();
  const after = await node.runPod("after", "storage");
  const addresses = [await before.ip(), await after.ip()];
  await node.restartRuntime();
  await waitUntil("garbage is collected", () => node.calls().includes("GC"));
  expect([await before.ip(), await after.ip()]).toEqual(addresses);
  expect(await before.links()).toEqual(["eth0"]);
  expect(await after.links()).toEqual(["eth0", "net1"]);
  expect(node.calls().filter((call) => call.includes("failed"))).toEqual([]);
  for (const pod of [before, after]) await pod.remove();
  expect(await node.remains()).toEqual([]);
});

test("an upgrade from a release whose network was named plexus keeps every pod's network", async () => {
  const node = await startNode();
  const before = await node.runPod("before");
  await node.startPlexusdWithoutConf();
  const plugin = { type: "plexus", clusterNetwork: "/etc/cni/net.d/10-primary.conflist" };
  const old = { cniVersion: "1.1.0", name: "plexus", plugins: [plugin] };
  await writeFile(node.at(conf), JSON.stringify(old));
  await node.waitForNetwork("plexus");
  const former = await node.runPod("former", "storage");
  const addresses = [await before.ip(), await former.ip()];
  await node.stopPlexusd();
  await node.startPlexusd();
  expect(JSON.parse(await readFile(node.at(conf), "utf8"))).toMatchObject({ name: "primary" });
  await node.restartRuntime();
  await waitUntil("garbage is collected", () => node.calls().includes("GC"));
  expect([await before.ip(), await former.ip()]).toEqual(addresses);
  expect(await former.links()).toEqual(["eth0", "net1"]);
  expect(node.calls().filter((call) => call.includes("failed"))).toEqual([]);
  for (const pod of [before, former]) await pod.remove();
  expect(await node.remains()).toEqual([]);
});

test("another pod's DEL completes a failed DEL that CRI-O does not repeat", async () => {
  const node = await startPlexusNode();
  const pod = await node.runPod("stubborn", "flaky");
  await node.host.run(["touch", flakyFails]);
  await expect(pod.stop()).rejects.toThrow("switched off");
  expect(await node.remains()).toContainEqual(recordOf(pod));
  await node.host.run(["rm", flakyFails]);
  await waitUntil("a pod's DEL has detached the leftover", async () => {
    await (await node.runPod("other")).remove();
    return !(await node.remains()).includes(recordOf(pod));
  });
  await pod.remove();
  expect(await node.remains()).toEqual([]);
});

test("while plexusd is unavailable, pods are detached; new pods start when it is back", async () => {
  const node = await startPlexusNode();
  const first = await node.runPod("first", "storage");
  const second = await node.runPod("second", "storage");
  await node.stopPlexusd();
  await first.remove();
  const third = node.runPod("third", "storage");
  await node.startPlexusd();
  expect(await (await third).links()).toEqual(["eth0", "net1"]);
  await node.stopPlexusd();
  const restarted = node.restartRuntime();
  await node.startPlexusd();
  await restarted;
  expect(await second.ip()).toMatch(address);
  for (const pod of [second, await third]) await pod.remove();
  expect(await node.remains()).toEqual([]);
});

test("after a power loss CRI-O detaches its pods before plexusd runs", async () => {
  const node = await startPlexusNode();
  await node.runPod("first", "storage");
  await node.runPod("second", "flaky");
  await node.powerOff();
  await node.boot();
  await waitUntil("everything is detached", async () => (await node.remains()).length === 0);
  await node.startPlexusd();
  const pod = await node.runPod("third", "storage,flaky");
  expect(await pod.links()).toEqual(["eth0", "net1", "net2"]);
  await pod.remove();
  expect(await node.remains()).toEqual([]);
});

/**
 * Makes an attachment that CRI-O has no record of, as if CRI-O had lost its state, and removes its namespace: while that
 * exists, it may be another runtime's.
 */
async function attachWithoutCrio(node: CrioNode, containerId: string): Promise<void> {
  const { plugins, ...list } = JSON.parse(await readFile(node.at(conf), "utf8"));
  await node.host.run(["ip", "netns", "add", containerId]);
  await node.host.run(["/opt/cni/bin/plexus"], {
    input: JSON.stringify({ ...list, ...plugins[0] }),
    env: {
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: containerId,
      CNI_NETNS: `/run/netns/${containerId}`,
      CNI_IFNAME: "eth0",
      CNI_PATH: "/opt/cni/bin",
    },
  });
  await node.host.run(["ip", "netns", "del", containerId]);
}
