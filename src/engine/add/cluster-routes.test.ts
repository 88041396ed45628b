import { describe, expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import type { EngineConfig } from "#engine/config.ts";
import { type EngineLab, expectError, netns, sandbox } from "#engine/testing/engine-lab.ts";
import { podLab, web } from "#engine/testing/pod-lab.ts";
import { ipFamily, parseCidr } from "#lib/ip.ts";
import { type KernelRoute, keptRoute, newDefaultRoute } from "#netlink/routes.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";
import { planClusterRoutes } from "./cluster-routes.ts";

const uplink = '[{"name":"a","default-route":["10.0.0.77"]}]';
const services = "10.96.0.0/12";
const node = "192.0.2.7/32";

interface Scenario {
  readonly clusterRoutes?: NonNullable<EngineConfig["clusterRoutes"]>;
  /** The pod's own wish. */
  readonly wish?: string;
  readonly networks?: string;
}

/** A lab whose default network has the pod's default route. */
function lab({ clusterRoutes, wish, networks = uplink }: Scenario): EngineLab {
  const made = podLab(networks, undefined, clusterRoutes && { config: { clusterRoutes } });
  const annotations = wish === undefined ? {} : { "plexus.dev/cluster-routes": wish };
  made.source.addPod({
    name: "web",
    annotations: { [networksAnnotation]: networks, ...annotations },
  });
  made.source.ranges = { services: [services], node: [node] };
  made.plugins.script("ptp ADD", (call) => {
    const outcome = made.plugins.work(call);
    made.kernel.addDefaultRoute(netns, { dev: "eth0", gateway: "10.0.0.254" });
    return outcome;
  });
  return made;
}

const byEth0 = (...ranges: string[]): string[] =>
  ranges.map((each) => `${each} via 10.0.0.254 dev eth0`);

async function recorded({ records }: EngineLab): Promise<readonly string[] | undefined> {
  return (await records.load(sandbox))?.record.clusterRoutes;
}

describe("add()", () => {
  const ranges = ["10.0.0.0/16", services, node];

  test("keeps the cluster on eth0 before another network is attached, in the record and for CHECK", async () => {
    const it = lab({ clusterRoutes: ["10.0.0.0/16"] });
    const before: string[][] = [];
    it.plugins.script("bridge ADD", (call) => {
      before.push(it.kernel.keptRoutes(netns));
      return it.plugins.work(call);
    });
    expect(await it.add(web)).toMatchObject({ exitCode: 0 });
    expect(before).toEqual([byEth0(...ranges)]);
    expect(it.kernel.keptRoutes(netns)).toEqual(byEth0(...ranges));
    expect(it.kernel.defaultRoutes(netns)).toEqual(["via 10.0.0.77 dev net1 metric 0"]);
    expect(await recorded(it)).toEqual(ranges);
    expect(await it.check(web)).toMatchObject({ exitCode: 0 });
    it.kernel.removeLink(netns, "eth0");
    expectError(
      await it.check(web),
      999,
      `the pod has lost its route to 10.0.0.0/16 in the cluster`,
    );
    expect(await it.del(web)).toMatchObject({ exitCode: 0 });
  });

  test.each<[title: string, Scenario]>([
    ["it is not configured", {}],
    ["the pod wants none", { clusterRoutes: ["10.0.0.0/16"], wish: "none" }],
    ["the pod has only its default network", { clusterRoutes: ["10.0.0.0/16"], networks: "" }],
  ])("neither asks for the cluster's ranges nor changes routes if %s", async (_, scenario) => {
    const it = lab(scenario);
    expect(await it.add(web)).toMatchObject({ exitCode: 0 });
    expect(it.source.asked).not.toContain("cluster ranges");
    expect(it.kernel.keptRoutes(netns)).toEqual([]);
    expect(await recorded(it)).toBeUndefined();
  });

  test("keeps the cluster for a pod that wants it", async () => {
    const it = lab({ wish: "10.0.0.0/16, fd00:244::/48", networks: "a" });
    expect(await it.add(web)).toMatchObject({ exitCode: 0 });
    expect(await recorded(it)).toEqual(ranges);
  });

  test("refuses another wish of a pod, and a pod whose address is in no range", async () => {
    const many = Array.from({ length: 65 }, (_, n) => `10.${n}.0.0/16`).join();
    for (const wish of ["yes", "", "10.0.0.1/16", "0.0.0.0/0", many]) {
      const odd = lab({ wish });
      expectError(await odd.add(web), 100, "must be none, or at most 64 networks of the cluster");
      expect(odd.kernel.linkNames(netns)).toEqual([]);
    }
    for (const networks of [uplink, "a"]) {
      const it = lab({ wish: services, networks });
      expectError(await it.add(web), 7, "no range of clusterRoutes has the pod's address 10.0.0.1");
      expect(it.kernel.linkNames(netns)).toEqual([]);
    }
  });

  test("refuses a pod while the ranges of Services are not known", async () => {
    const it = lab({ clusterRoutes: ["10.0.0.0/16"] });
    it.source.clusterRanges = async () => {
      throw new CniError("ApiUnavailable", "no answer");
    };
    expectError(await it.add(web), 11, "no answer");
  });

  test("uses only configured ranges where no ServiceCIDRs exist", async () => {
    const it = lab({ clusterRoutes: ["10.0.0.0/16", services] });
    it.source.ranges = undefined;
    expect(await it.add(web)).toMatchObject({ exitCode: 0 });
    expect(await recorded(it)).toEqual(["10.0.0.0/16", services]);
  });
});

const links = ["lo", "eth0", "net1"].map((name, i) => ({
  index: i + 1,
  name,
  flags: 1,
  mtu: 1500,
}));

function byDefault(gateway: string, { ifIndex = 2, metric = 0, onlink = false } = {}): KernelRoute {
  return newDefaultRoute({ family: ipFamily(gateway), ifIndex, gateway, metric, onlink });
}

/** A route of a plugin. */
function routeOf(dst: string, gateway: string, ifIndex = 2): KernelRoute {
  const route = byDefault(gateway, { ifIndex });
  const { address, prefix } = parseCidr(dst);
  return { ...route, dst: { address, prefix } };
}

const keptFor = (dst: string, way: KernelRoute): KernelRoute => keptRoute(parseCidr(dst), way);

function plan(routes: readonly KernelRoute[], ranges: readonly string[]): string[] {
  const state = { links, routes, addresses: [address4, address6] };
  return planClusterRoutes(state, "eth0", ranges.map(parseCidr)).edits.map(
    ({ op, route: { dst, hops, metric } }) =>
      `${op} ${dst.address}/${dst.prefix} via ${hops[0]?.gateway}${hops[0]?.onlink ? " onlink" : ""} metric ${metric}`,
  );
}

const of = { ifIndex: 2, isGlobal: true };
const address4 = { ...of, family: 4 as const, address: "10.244.1.5", prefix: 32 };
const address6 = { ...of, family: 6 as const, address: "fd00:244::5", prefix: 128 };

describe("planClusterRoutes()", () => {
  const ranges = ["10.244.0.0/16", "fd00:244::/48"];
  const v4 = byDefault("169.254.1.1", { onlink: true });
  const v6 = byDefault("fe80::ee", { metric: 1024 });

  test("copies the default route of each family, with a link-local gateway and its flag", () => {
    expect(plan([v4, v6], ranges)).toEqual([
      "add 10.244.0.0/16 via 169.254.1.1 onlink metric 0",
      "add fd00:244::/48 via fe80::ee metric 1024",
    ]);
  });

  test("takes the default route that the kernel prefers, and none of another interface", () => {
    const others = [byDefault("10.1.0.1", { ifIndex: 3 }), byDefault("10.0.0.9", { metric: 9 })];
    expect(plan([...others, byDefault("10.0.0.8", { metric: 8 })], ranges)).toEqual([
      "add 10.244.0.0/16 via 10.0.0.8 metric 8",
    ]);
  });

  test("leaves families that it does not reach, and a range that has a route already", () => {
    expect(plan([v4], ranges)).toHaveLength(1);
    expect(plan([v4, routeOf("10.244.0.0/16", "10.244.1.1")], ranges)).toEqual([]);
    expect(plan([v4, routeOf("10.244.0.0/16", "10.1.0.1", 3)], ranges)).toEqual([]);
  });

  test("copies the closest route that leads to a range: others may be as wide", () => {
    const wide = routeOf("10.0.0.0/8", "10.244.1.1");
    expect(plan([v4, wide, routeOf("10.0.0.0/9", "10.1.0.1", 3)], [...ranges, services])).toEqual([
      "add 10.244.0.0/16 via 10.244.1.1 metric 0",
      "add 10.96.0.0/12 via 10.244.1.1 metric 0",
    ]);
  });

  test("removes none, and goes by a kept one where the default route has moved", () => {
    const present = [keptFor("10.244.0.0/16", v4), keptFor("10.96.0.0/12", v4)];
    expect(plan(present, [...ranges, "10.112.0.0/12"])).toEqual([
      "add 10.112.0.0/12 via 169.254.1.1 onlink metric 0",
    ]);
    expect(plan([...present, v4], ranges)).toEqual([]);
  });

  test("recognizes a kept route that the kernel has merged with another network's", () => {
    const [kept, other] = [keptFor("fd00:244::/48", v6), byDefault("fe80::77", { ifIndex: 3 })];
    const merged = { ...kept, hops: [...kept.hops, ...other.hops] };
    expect(plan([v6, merged], ["10.244.0.0/16", "fd00:244::/48"])).toEqual([]);
  });

  test("refuses ranges without an address of the pod, and so without other pods", () => {
    expect(() => plan([v4, v6], ["10.244.0.0/16"])).toThrow("fd00:244::5");
    // ptp has a route to the pods of its node.
    expect(() => plan([v4, routeOf("10.244.1.0/24", "10.244.1.1")], [services])).toThrow(
      "10.244.1.5",
    );
  });
});
