import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { bridge, chained, ptp } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { test } from "../../support/node/test.ts";
import { cniPluginDir } from "../../support/paths.ts";

const resourceName = (resource: string) => ({
  annotations: { "k8s.v1.cni.cncf.io/resourceName": resource },
});

test.beforeAll(async ({ node }) => {
  node.defaultNetwork = ptp("default", 60);
  await node.nad("bridge-marker", bridge("m1", 61), resourceName("bridge.network.kubevirt.io/br1"));
  await node.nad("ovs-marker", bridge("m2", 62), resourceName("ovs-cni.network.kubevirt.io/br1"));
  // A plugin that might use a device, as far as its name says.
  const dir = join(node.lab.dir, "bin");
  await mkdir(dir);
  await copyFile(join(cniPluginDir(), "bridge"), join(dir, "macvtap"));
  node.cniPath = [dir, cniPluginDir()];
  const macvtap = bridge("m3", 63, { type: "macvtap" });
  await node.nad("macvtap", macvtap, resourceName("macvtap.network.kubevirt.io/eth0"));
  const vlan = resourceName("vendor.example/vlan-7");
  await node.nad("placed", chained(bridge("m4", 64), { type: "tuning" }), vlan);
});

test("networks of bridge-marker and ovs-cni are attached without a device and without configuration [D-35]", async ({
  node,
}) => {
  const pod = await node.pod("vm", { networks: "bridge-marker,ovs-marker" });
  await pod.mustAdd();
  expect(Object.keys(await pod.links()).toSorted()).toEqual(["eth0", "net1", "net2"]);
  await pod.mustDel();
});

test("a network whose plugins ignore devices is attached without one, whatever its resource [D-5]", async ({
  node,
}) => {
  const pod = await node.pod("placed", { networks: "placed" });
  await pod.mustAdd();
  expect(Object.keys(await pod.links()).toSorted()).toEqual(["eth0", "net1"]);
  await pod.mustDel();
});

test("a resource with devices is a marker only if the configuration says so [D-5] [D-35]", async ({
  node,
}) => {
  const pod = await node.pod("tap", { networks: "macvtap" });
  const { code, msg } = errorOf(await pod.add());
  expect(code).toBe(100);
  expect(msg).toMatch(/needs a device of resource macvtap\.network\.kubevirt\.io\/eth0/);
  node.confExtra = { markerResources: ["macvtap.network.kubevirt.io/*"] };
  await pod.mustAdd();
  await pod.mustDel();
});
