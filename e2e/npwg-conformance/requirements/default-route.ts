import { expectEqual, expectThat } from "../expect.ts";
import { asList, asObject, type JsonObject } from "../json.ts";
import type { Pod } from "../pod.ts";
import type { Checks } from "../requirement.ts";
import { defaultType } from "../runtime/delegates.ts";
import { cniVersion, type Trial } from "../trial.ts";

const defaultRoutes = [{ dst: "0.0.0.0/0" }, { dst: "::/0" }];

/** The standard's sections 4.1.2.1.9 and 5.3.6.4: default-route. All plugins are the reference plugins. */
export const defaultRouteChecks: Checks = {
  "N-4.1.2.1.9a": async (trial) => {
    for (const gateways of [["10.72.0.1"], ["10.72.0.1", "fd00:72::1"], []])
      await attach(trial, [{ name: "routed", "default-route": gateways }]);
  },
  "N-4.1.2.1.9b": async (trial) => {
    for (const [name, gateways, route] of [
      ["plain", ["10.71.0.9"], "10.71.0.9 net1"],
      ["routed", [], "10.72.0.1 net1"],
    ] as const) {
      const pod = await attach(trial, [{ name, "default-route": gateways }]);
      const what = `default routes with default-route ${JSON.stringify(gateways)}`;
      expectEqual(what, await defaultRoutesOf(pod), [route]);
    }
  },
  "N-4.1.2.1.9c": async (trial) => {
    const selected = { name: "plain", "default-route": ["10.71.0.1", "fd00:71::1"] };
    const pod = await attach(trial, [{ name: "routed" }, selected]);
    expectEqual("IPv4 default routes", await defaultRoutesOf(pod), ["10.71.0.1 net2"]);
    expectEqual("IPv6 default routes", await defaultRoutesOf(pod, "-6"), ["fd00:71::1 net2"]);
  },
  "N-4.1.2.1.9d": async (trial) => {
    const networks = [
      { name: "plain", "default-route": ["10.71.0.1"] },
      { name: "routed", "default-route": ["10.72.0.1"] },
    ];
    const pod = await attach(trial, networks);
    const links = JSON.parse(await pod.exec("ip", "-j", "link")) as JsonObject[];
    const names = links.map(({ ifname }) => ifname).filter((name) => name !== "lo");
    expectEqual("interfaces of the pod", names, ["eth0"]);
  },
  "N-5.3.6.4": async (trial) => {
    const pod = await attach(trial, [{ name: "plain", "default-route": ["10.71.0.9"] }]);
    const status = await pod.statusOf("plain");
    expectEqual("default-route in the status", status["default-route"], ["10.71.0.9"]);
  },
  "N-4.1.2.1.9e": async (trial) => {
    const gateways = ["10.71.0.9", "10.71.0.1"];
    const pod = await attach(trial, [{ name: "plain", "default-route": gateways }]);
    const routes = await readDefaultRoutes(pod, "-4");
    const byMetric = routes.toSorted((a, b) => Number(a.metric ?? 0) - Number(b.metric ?? 0));
    const got = byMetric.map(({ gateway }) => gateway);
    expectEqual("gateways of the default routes, by metric", got, gateways);
    const metrics = new Set(routes.map(({ metric }) => metric ?? 0));
    expectThat(metrics.size === gateways.length, "different metrics", [...metrics]);
  },
};

/** A default network with default routes, a network `plain` without, and a network `routed` with them. */
async function attach(trial: Trial, networks: readonly JsonObject[]): Promise<Pod> {
  const { bridge } = trial;
  const plain = { type: "bridge", bridge, isGateway: true, ipam: trial.hostLocal(71) };
  const routed = { type: "ptp", ipam: trial.hostLocal(72, defaultRoutes) };
  for (const [name, plugin] of Object.entries({ plain, routed }))
    await trial.define(name, { cniVersion, name, plugins: [plugin] });
  const pod = await trial.pod({ networks });
  const ipam = trial.hostLocal(70, defaultRoutes);
  const name = "npwg-default-network";
  await pod.useReal(defaultType, { cniVersion, name, type: "ptp", ipam });
  await pod.mustAdd();
  return pod;
}

/** `GATEWAY INTERFACE` of each default route. */
async function defaultRoutesOf(pod: Pod, family: "-4" | "-6" = "-4"): Promise<string[]> {
  const routes = await readDefaultRoutes(pod, family);
  return routes.map(({ gateway, dev }) => `${gateway} ${dev}`);
}

async function readDefaultRoutes(pod: Pod, family: "-4" | "-6"): Promise<JsonObject[]> {
  const text = await pod.exec("ip", family, "-j", "route", "show", "default");
  const routes = asList(JSON.parse(text || "[]")).map(asObject);
  return routes.flatMap((route) => {
    const hops = asList(route.nexthops).map(asObject);
    return hops.length === 0 ? [route] : hops.map((hop) => ({ ...route, ...hop }));
  });
}
