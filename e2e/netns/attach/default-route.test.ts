import { expect } from "vitest";
import { fileKinds } from "../../support/host-state.ts";
import { bridge, defaultRoutes, hostLocal } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { test } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";

const dual = (net: number, routes: object[] = []): object => ({
  ipam: hostLocal(net, { v6: true, routes }),
});

test.beforeAll(async ({ node }) => {
  node.defaultNetwork = bridge("default", 70, dual(70, defaultRoutes));
  await node.nad("plain", bridge("plain", 71, dual(71)));
  await node.nad("routed", bridge("routed", 72, dual(72, defaultRoutes)));
  await node.nad("routed-v4", bridge("routed-v4", 73, dual(73, defaultRoutes.slice(0, 1))));
});

const viaDefault = { v4: ["via 10.70.0.1 dev eth0"], v6: ["via fd00:70::1 dev eth0"] };

async function routesOf(pod: TestPod): Promise<{ v4: string[]; v6: string[] }> {
  return { v4: await pod.defaultRoutes(4), v6: await pod.defaultRoutes(6) };
}

const cases = [
  {
    name: "without the default-route key, the default network keeps both default routes",
    network: { name: "plain" },
    routes: viaDefault,
  },
  {
    name: "several gateways become routes in the requested order",
    network: {
      name: "plain",
      "default-route": ["10.71.0.9", "10.71.0.1", "fd00:71::9", "fd00:71::8"],
    },
    routes: {
      v4: ["via 10.71.0.9 dev net1", "via 10.71.0.1 dev net1"],
      v6: ["via fd00:71::9 dev net1", "via fd00:71::8 dev net1"],
    },
  },
  {
    name: "requested gateways replace the attachment's own",
    network: { name: "routed", "default-route": ["10.72.0.9"] },
    routes: { v4: ["via 10.72.0.9 dev net1"], v6: [...viaDefault.v6, "via fd00:72::1 dev net1"] },
  },
  {
    name: "a requested IPv6 gateway replaces an IPv6 route shared by both networks",
    network: { name: "routed", "default-route": ["fd00:72::1"] },
    routes: { v4: expect.arrayContaining(viaDefault.v4), v6: ["via fd00:72::1 dev net1"] },
  },
  {
    name: "an empty list keeps the plugin's default routes and removes those of other networks in their families",
    network: { name: "routed-v4", "default-route": [] },
    routes: { v4: ["via 10.73.0.1 dev net1"], v6: viaDefault.v6 },
  },
  {
    name: "an empty list sets the gateways of the plugin's addresses, if it has no default route",
    network: { name: "plain", "default-route": [] },
    routes: { v4: ["via 10.71.0.1 dev net1"], v6: ["via fd00:71::1 dev net1"] },
  },
];

test.for(cases)(
  "$name [N-4.1.2.1.9a] [N-4.1.2.1.9b] [N-4.1.2.1.9c] [N-4.1.2.1.9e]",
  async ({ network, routes }, { node }) => {
    const pod = await node.newPod({ networks: [network] });
    await pod.mustAdd();
    expect(await routesOf(pod)).toEqual(routes);
    await pod.mustCheck();
    await pod.mustDel();
    expect(await pod.links()).toEqual({});
  },
);

test("two networks get the default route of one family each, shown by traffic, result and status [N-5.3.6.4] [N-4.1.2.1.9c] (multus.md §2.8)", async ({
  node,
}) => {
  await node.lab.run("ip", "address", "add", "198.51.100.1/32", "dev", "lo");
  const networks = [
    { name: "plain", "default-route": ["10.71.0.1"] },
    { name: "routed", "default-route": ["fd00:72::1"] },
  ];
  const pod = await node.pod("two-families", { networks });
  const result = await pod.mustAdd();
  expect(await routesOf(pod)).toEqual({
    v4: ["via 10.71.0.1 dev net1"],
    v6: ["via fd00:72::1 dev net2"],
  });
  expect(await pod.run("ip", "route", "get", "198.51.100.1")).toContain("via 10.71.0.1 dev net1");
  await pod.ping("198.51.100.1");
  expect(result.routes ?? [], "the default network has no route left").toEqual([]);
  const [main, plain, routed] = await pod.status();
  expect(main).not.toHaveProperty("gateway");
  expect(main).not.toHaveProperty("default-route");
  expect(plain).toMatchObject({ "default-route": ["10.71.0.1"], default: false });
  expect(routed).toMatchObject({ "default-route": ["fd00:72::1"], gateway: ["fd00:72::1"] });
  await pod.mustDel();
});

test("an unreachable gateway fails the ADD with its address, and nothing stays attached", async ({
  node,
}) => {
  const before = await node.hostState();
  const pod = await node.pod("unreachable", {
    networks: [{ name: "plain", "default-route": ["192.0.2.1"] }],
  });
  const error = errorOf(await pod.add());
  expect(error.code).toBe(100);
  expect(error.msg).toMatch(/gateway 192\.0\.2\.1/);
  expect(await pod.links()).toEqual({});
  expect(await pod.currentStatus()).toBeUndefined();
  expect(await node.changesSince(before, fileKinds)).toEqual([]);
});
