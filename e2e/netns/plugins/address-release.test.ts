import { expect } from "vitest";
import { bridge, chained, hostLocal, list, macvlan, ptp } from "../../support/networks.ts";
import { leavesNothing, lifeCycle } from "../../support/node/life-cycle.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";

test.beforeAll(async ({ node }) => {
  await node.lab.addUplink("up0");
  node.defaultNetwork = ptp("release-ptp", 51);
  await node.nad("bridge", bridge("release-bridge", 52));
  await node.nad("macvlan", macvlan("release-macvlan", 53));
  for (const device of ["dev0", "dev0-peer"])
    await node.nad(device, list("device", { type: "host-device", device, ipam: hostLocal(54) }));
});

test("host-device moves both ends of a link into two pods that reach each other, and back", async ({
  node,
}) => {
  await node.lab.addUplink("dev0");
  const a = await node.newPod({ networks: "dev0" });
  const b = await node.newPod({ networks: "dev0-peer" });
  await leavesNothing(node, [a, b], () => lifeCycle([a, b], { ifName: "net1" }));
  await node.lab.run("ip", "link", "del", "dev0");
});

test("sbr, whose DEL fails without a namespace, keeps no address lease", async ({ node }) => {
  const before = await node.hostState();
  await node.nad("policy", chained(bridge("release-sbr", 55), { type: "sbr" }));
  const pod = await node.newPod({ networks: "policy" });
  await pod.mustAdd();
  await node.lab.deleteNetns(pod.netns);
  await pod.mustDel();
  expect(await node.changesSince(before, ["address leases", "attachment records"])).toEqual([]);
});

interface Detachment {
  readonly how: string;
  readonly detach: (node: PlexusNode, pod: TestPod) => Promise<void>;
}

// Of the reference plugins, only host-device returns success without a namespace before it calls its IPAM plugin.
test.for<Detachment>([
  { how: "DEL", detach: (_, pod) => pod.mustDel() },
  {
    how: "a replay of the teardown plan",
    detach: async (node, pod) => {
      await node.stopDaemon("SIGKILL");
      await pod.mustDel();
      await node.startDaemon();
    },
  },
  {
    how: "GC",
    detach: async (node) => {
      const conf = node.conf({ cniVersion: "1.1.0", "cni.dev/valid-attachments": [] });
      const outcome = await node.call({ command: "GC", conf });
      expect(outcome).toMatchObject({ exitCode: 0 });
    },
  },
])("$how releases every address of a pod whose namespace is gone", async ({ detach }, { node }) => {
  const before = await node.hostState();
  await node.lab.addUplink("dev0");
  const pod = await node.newPod({ networks: "bridge,macvlan,dev0" });
  await pod.mustAdd();
  await node.lab.deleteNetns(pod.netns);
  await detach(node, pod);
  expect(await node.changesSince(before, ["address leases", "attachment records"])).toEqual([]);
});
