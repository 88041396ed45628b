import { beforeAll, expect } from "vitest";
import { findMultus } from "../../bench/peers/multus.ts";
import { hostKinds } from "../support/host-state.ts";
import { chained, macvlan, ptp } from "../support/networks.ts";
import type { PlexusNode } from "../support/node/plexus-node.ts";
import { test } from "../support/node/test.ts";
import type { TestPod } from "../support/node/test-pod.ts";

/*
 * A live node moves from Multus, the released one, to Plexus and back. Multus has its networks in its configuration, so
 * that it needs no API server. e2e/netns/detach/multus-takeover.test.ts does the first half with recorded files.
 */

const main = ptp("main", 30);
const storage = chained(macvlan("storage", 31), {
  type: "portmap",
  capabilities: { portMappings: true },
});
let multus = "";

beforeAll(async () => {
  const found = await findMultus();
  if (found === undefined) throw new Error("Multus cannot be built: see the message above");
  multus = found.thin;
}, 600_000);

test.beforeAll(async ({ idleNode: node }) => {
  await node.lab.addUplink("up0");
  node.defaultNetwork = main;
  await node.nad("storage", storage);
});

/** A call of Multus as the container runtime makes it. */
async function callMultus(
  node: PlexusNode,
  command: "ADD" | "DEL",
  { pod, networks }: { readonly pod: TestPod; readonly networks: object },
): Promise<void> {
  const conf = { cniVersion: "1.0.0", name: "multus-cni-network", type: "multus", ...networks };
  const env = node.environment(pod.request(command));
  const input = JSON.stringify({ ...conf, binDir: node.cniPath[0] });
  const { exitCode, stdout } = await node.lab.try([multus], { env, input });
  if (exitCode !== 0) throw new Error(`Multus failed (${command}): ${stdout}`);
}

const inline = { delegates: [main, storage] };
const interfaces = ["eth0", "net1"];

test("Plexus detaches pods of Multus, and after the way back Multus detaches its remaining pods; no lease leaks", async ({
  idleNode: node,
}) => {
  const before = await node.hostState();
  const [gone, staying] = [await node.pod("gone"), await node.pod("staying")];
  for (const pod of [gone, staying]) {
    await callMultus(node, "ADD", { pod, networks: inline });
    expect(Object.keys(await pod.links()).sort()).toEqual(interfaces);
  }
  await node.startDaemon();
  await gone.mustDel();
  expect(await gone.links()).toEqual({});
  const own = await node.pod("own", { networks: "storage" });
  await own.mustAdd();
  expect(Object.keys(await staying.links()).sort()).toEqual(interfaces);
  await own.mustDel();
  await node.stopDaemon();
  await callMultus(node, "DEL", { pod: staying, networks: inline });
  expect(await staying.links()).toEqual({});
  const kinds = hostKinds.filter((kind) => !/tables/.test(kind));
  expect(await node.changesSince(before, kinds)).toEqual([]);
});
