import { expect } from "vitest";
import { bridge, chained, hostLocal, list, macvlan, ptp } from "../support/networks.ts";
import { errorOf } from "../support/node/cni-call.ts";
import { leavesNothing, lifeCycle, twoPods } from "../support/node/life-cycle.ts";
import { test } from "../support/node/test.ts";

/*
 * Links that the kernel of a small virtual machine or a container host may lack. e2e/netns tests what every kernel
 * has, in a ninth of the time.
 */

test.beforeAll(async ({ node }) => {
  node.confExtra = { checkDelegates: "all" };
  node.defaultNetwork = ptp("plain", 10);
  await node.lab.addUplink("up0");
  const network = list("n-ipvlan", { type: "ipvlan", master: "up0", ipam: hostLocal(41) });
  await node.nad("ipvlan", network);
  for (const master of ["up0", "up0-peer"]) {
    const ipam = hostLocal(43);
    await node.nad(`vlan-${master}`, list("n-vlan", { type: "vlan", master, vlanId: 7, ipam }));
  }
});

test("ipvlan: ADD, CHECK, ping and DEL leave nothing", async ({ node }) => {
  const pods = await twoPods(node, { networks: "ipvlan" });
  await leavesNothing(node, pods, () => lifeCycle(pods, { ifName: "net1" }));
});

test("vrf in a chain: ADD, ping and DEL leave nothing", async ({ node }) => {
  await node.nad("vrf", chained(bridge("n-vrf", 42), { type: "vrf", vrfname: "blue" }));
  const pods = await twoPods(node, { networks: "vrf" });
  // CHECK of bridge looks for the network's route in the main table, from which vrf has taken it.
  const options = { ifName: "net1", checks: false };
  await leavesNothing(node, pods, () => lifeCycle(pods, options));
});

test("vlan: pods on both ends of a link reach each other, and DEL leaves nothing", async ({
  node,
}) => {
  const a = await node.newPod({ networks: "vlan-up0" });
  const b = await node.newPod({ networks: "vlan-up0-peer" });
  await leavesNothing(node, [a, b], () => lifeCycle([a, b], { ifName: "net1" }));
});

test("macvlan on a bond: ADD, CHECK, ping and DEL leave nothing", async ({ node }) => {
  const { lab } = node;
  await lab.addUplink("slave0");
  await lab.run("ip", "link", "add", "bond0", "type", "bond", "mode", "active-backup");
  await lab.run("ip", "link", "set", "slave0", "down");
  await lab.run("ip", "link", "set", "slave0", "master", "bond0");
  await lab.run("ip", "link", "set", "bond0", "up");
  await node.nad("bonded", macvlan("n-bonded", 44, { master: "bond0" }));
  const pods = await twoPods(node, { networks: "bonded" });
  await leavesNothing(node, pods, () => lifeCycle(pods, { ifName: "net1" }));
});

test.for(["ipvlan", "vlan-up0"])(
  "%s ignores a requested MAC: ADD fails by default, and succeeds with strictness: multus",
  async (network, { node }) => {
    const strict = node.confExtra;
    const mac = "02:ee:00:00:00:01";
    const networks = [{ name: network, mac }];
    const pod = await node.newPod({ networks });
    const before = await node.hostState();
    expect(errorOf(await pod.add()).msg).toContain('capability "mac"');
    node.confExtra = { ...strict, strictness: "multus" };
    await pod.mustAdd();
    await pod.mustCheck();
    const got = (await pod.links()).net1?.address;
    expect((await pod.status())[1]).toMatchObject({
      "plexus.dev/ignored-requests": [{ key: "mac", asked: mac, got }],
    });
    await pod.mustDel();
    expect(await node.changesSince(before)).toEqual([]);
    node.confExtra = strict;
  },
);

test("DEL releases every address of a pod whose namespace is gone", async ({ node }) => {
  const before = await node.hostState();
  const pod = await node.newPod({ networks: "ipvlan,vlan-up0" });
  await pod.mustAdd();
  await node.lab.deleteNetns(pod.netns);
  await pod.mustDel();
  expect(await node.changesSince(before, ["address leases", "attachment records"])).toEqual([]);
});
