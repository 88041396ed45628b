import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { expect } from "vitest";
import { hostKinds } from "../../support/host-state.ts";
import { chained, hostLocal, list, macvlan, ptp } from "../../support/networks.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";
import { repositoryRoot } from "../../support/paths.ts";

/*
 * A node that Multus served before. Its files were recorded with Multus 4.3.0 (e2e/fixtures/multus). The test repeats
 * the recorded attachments with the same plugins and input. e2e/conformance/multus.test.ts does the same with Multus
 * itself, if that can be built.
 */

const fixtures = join(repositoryRoot, "e2e/fixtures/multus");
const recordedId = "a".repeat(64);

interface CachedAdd {
  readonly config: string;
  readonly ifName: string;
  readonly networkName: string;
  readonly cniArgs: readonly (readonly [string, string])[];
  readonly capabilityArgs?: object;
}

interface PluginConf {
  readonly type: string;
  readonly capabilities?: Record<string, boolean>;
}

/** A recorded file as it would be of this pod. */
function recorded(name: string, pod: TestPod): string {
  const text = readFileSync(join(fixtures, name), "utf8");
  const { containerId, netns } = pod;
  return text
    .replaceAll(recordedId, containerId)
    .replaceAll("/run/netns/ns1", `/run/netns/${netns}`);
}

/** Makes one recorded attachment by its plugins, as libcni does. */
async function attach(node: PlexusNode, pod: TestPod, cached: CachedAdd): Promise<unknown> {
  const conf = JSON.parse(Buffer.from(cached.config, "base64").toString()) as {
    readonly plugins?: readonly PluginConf[];
    readonly cniVersion: string;
  };
  const { cniVersion } = conf;
  let prevResult: unknown;
  for (const plugin of conf.plugins ?? [conf as unknown as PluginConf]) {
    const stdin = {
      ...plugin,
      cniVersion,
      name: cached.networkName,
      ...(prevResult === undefined ? {} : { prevResult }),
      ...(cached.capabilityArgs === undefined ? {} : { runtimeConfig: cached.capabilityArgs }),
    };
    const env = {
      ...node.environment(pod.request("ADD")),
      CNI_IFNAME: cached.ifName,
      CNI_ARGS: cached.cniArgs.map((pair) => pair.join("=")).join(";"),
    };
    const input = JSON.stringify(stdin);
    const [dir = ""] = node.cniPath;
    const { stdout } = await node.lab.try([join(dir, plugin.type)], { input, env });
    prevResult = JSON.parse(String(stdout));
  }
  return prevResult;
}

/** A pod that Multus attached to `main`, `storage` and `single`, with everything that it left of it. */
async function attachedByMultus(node: PlexusNode, name: string): Promise<TestPod> {
  const pod = await node.pod(name, { uid: "u1" });
  for (const file of ["main-eth0", "storage-data0", "single-net2"]) {
    const cached = JSON.parse(recorded(`results/${file}`, pod)) as CachedAdd;
    const result = await attach(node, pod, cached);
    const [network, ifName] = file.split("-");
    const path = `/var/lib/cni/multus/results/${network}-${pod.containerId}-${ifName}`;
    await put(node, path, JSON.stringify({ ...cached, result }));
  }
  await put(node, `/var/lib/cni/multus/${pod.containerId}`, recorded("networks", pod));
  return pod;
}

/** Writes a file in the lab, where /var/lib/cni is its own. */
async function put(node: PlexusNode, path: string, text: string): Promise<void> {
  const copy = join(node.lab.dir, basename(path));
  await writeFile(copy, text, { mode: 0o600 });
  await node.lab.run("install", "-D", "-m", "600", copy, path);
}

test.beforeAll(async ({ node }) => {
  await node.lab.addUplink("up0");
  const portmap = { type: "portmap", capabilities: { portMappings: true } };
  const conf = join(node.lab.dir, "net.d");
  await mkdir(conf);
  const main = chained(
    ptp("main", 20, { ipam: { type: "host-local", subnet: "10.20.0.0/24" } }),
    portmap,
  );
  await writeFile(join(conf, "10-main.conflist"), JSON.stringify(main));
  node.confExtra = { delegates: [], clusterNetwork: join(conf, "10-main.conflist") };
  const capabilities = { ips: true, mac: true };
  await node.nad("storage", chained(macvlan("storage", 21, { capabilities }), portmap));
  await node.nad("single", list("single", { type: "bridge", bridge: "br22", ipam: hostLocal(22) }));
  // What the plugins keep of their first pod: bridges, and the chains of port mappings.
  const first = await attachedByMultus(node, "first");
  await first.mustDel();
});

const leases = async (node: PlexusNode): Promise<string[]> =>
  ((await node.hostState())["address leases"] ?? []).map((line) => line.split(" ")[0] ?? "");

test("Plexus detaches a pod that Multus attached from all its networks, using the cache files of Multus", async ({
  node,
}) => {
  const before = await node.hostState();
  const pod = await attachedByMultus(node, "web");
  expect(Object.keys(await pod.links()).sort()).toEqual(["data0", "eth0", "net2"]);
  expect(await leases(node)).toHaveLength(3);
  await pod.mustDel();
  expect(await pod.links()).toEqual({});
  expect(await node.changesSince(before, hostKinds)).toEqual([]);
  await pod.mustDel();
});

test("the way back to Multus: pods of Plexus leave no lease, and pods of Multus keep theirs and its files", async ({
  node,
}) => {
  const old = await attachedByMultus(node, "old");
  const before = await node.hostState();
  const pod = await node.pod("new", { networks: "storage,single" });
  await pod.mustAdd();
  expect(await leases(node)).toHaveLength(6);
  await pod.mustDel();
  await node.stopDaemon();
  expect(
    await node.changesSince(
      before,
      hostKinds.filter((kind) => kind !== "processes"),
    ),
  ).toEqual([]);
  expect(Object.keys(await old.links()).sort()).toEqual(["data0", "eth0", "net2"]);
  await node.startDaemon();
  await old.mustDel();
});
