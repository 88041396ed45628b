import { expect } from "vitest";
import { bridge, defaultRoutes, hostLocal } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { test as nodeTest } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";

const clusterRoutes = ["10.70.0.0/16", "10.96.0.0/12", "fd00:70::/32", "fd00:96::/108"];

const test = nodeTest.extend("daemonConfig", { scope: "file" }, { clusterRoutes });

const dual = (net: number, routes: object[] = []): object => ({
  ipam: hostLocal(net, { v6: true, routes }),
});

test.beforeAll(async ({ node }) => {
  node.defaultNetwork = bridge("default", 70, dual(70, defaultRoutes));
  await node.nad("uplink", bridge("uplink", 71, dual(71)));
  const wide = [{ dst: "10.0.0.0/8" }, { dst: "fd00::/16" }];
  await node.nad("wide", bridge("wide", 72, dual(72, wide)));
});

/** A Service, and a pod of another node. */
const cluster = ["10.96.0.10", "10.70.9.9", "fd00:96::a", "fd00:70:9::9"];
const uplink = { name: "uplink", "default-route": ["10.71.0.1", "fd00:71::1"] };
const keep = (wish: string): object => ({ "plexus.dev/cluster-routes": wish });

/** Gateway and interface of the way to each address. */
async function ways(pod: TestPod, addresses: readonly string[]): Promise<string[]> {
  const found = addresses.map(async (address) => {
    const family = address.includes(":") ? "-6" : "-4";
    const text = await pod.run("ip", family, "route", "get", address);
    return /via (\S+) dev (\S+)/.exec(text)?.slice(1).join(" ") ?? text;
  });
  return Promise.all(found);
}

const byEth0 = ["10.70.0.1 eth0", "10.70.0.1 eth0", "fd00:70::1 eth0", "fd00:70::1 eth0"];
const byNet1 = ["10.71.0.1 net1", "10.71.0.1 net1", "fd00:71::1 net1", "fd00:71::1 net1"];

test("a pod whose default route moves keeps the cluster on eth0, for which CHECK looks, and its DEL leaves nothing", async ({
  node,
}) => {
  const pod = await node.newPod({ networks: [uplink] });
  await pod.mustAdd();
  expect(await ways(pod, cluster)).toEqual(byEth0);
  const lan = ["203.0.113.7", "2001:db8::7"];
  expect(await ways(pod, lan)).toEqual(["10.71.0.1 net1", "fd00:71::1 net1"]);
  const routes = await pod.run("ip", "route", "show", "proto", "112");
  expect(routes.trim().split(/\s*\n/)).toEqual([
    "10.70.0.0/16 via 10.70.0.1 dev eth0",
    "10.96.0.0/12 via 10.70.0.1 dev eth0",
  ]);
  await pod.mustCheck();
  await pod.run("ip", "-6", "route", "del", "fd00:96::/108");
  expect(errorOf(await pod.check()).msg).toContain("lost its route to fd00:96::/108");
  await pod.mustDel();
  expect(await pod.links()).toEqual({});
  expect(await pod.run("ip", "route")).toBe("");
});

test("a pod keeps the cluster on eth0 from a network with wide routes, whose own addresses it reaches", async ({
  node,
}) => {
  const pod = await node.newPod({ networks: "wide" });
  await pod.mustAdd();
  expect(await ways(pod, cluster)).toEqual(byEth0);
  expect(await ways(pod, ["10.9.9.9", "fd00:9::9"])).toEqual(["10.72.0.1 net1", "fd00:72::1 net1"]);
  await pod.mustDel();
});

test("a pod that wants none loses the cluster, as its definition says", async ({ node }) => {
  const pod = await node.newPod({ networks: [uplink], annotations: { ...keep("none") } });
  await pod.mustAdd();
  expect(await ways(pod, cluster)).toEqual(byNet1);
  expect(await pod.run("ip", "route", "show", "proto", "112")).toBe("");
  await pod.mustDel();
});

test("another wish is refused", async ({ node }) => {
  const pod = await node.newPod({ networks: [uplink], annotations: { ...keep("yes") } });
  expect(errorOf(await pod.add())).toMatchObject({
    code: 100,
    msg: expect.stringContaining("plexus.dev/cluster-routes: must be none, or at most 64"),
  });
});
