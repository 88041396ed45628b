import { expect, test } from "vitest";
import type { EngineConfig } from "#engine/config.ts";
import { EngineLab, netns, network } from "#engine/testing/engine-lab.ts";
import { exited } from "#engine/testing/fake-plugins.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";
import type { Explanation } from "./explanation.ts";

interface Scenario {
  readonly config?: Partial<EngineConfig>;
  readonly defaultRoute?: readonly string[];
  readonly annotations?: Readonly<Record<string, string>>;
  /** What net-a's plugin reports. */
  readonly address?: string;
  readonly routes?: readonly object[];
  readonly plugins?: readonly string[];
}

/** Explains a running pod with the network `net-a`, in a cluster with Services. */
async function explain(scenario: Scenario): Promise<Explanation> {
  const { config = {}, defaultRoute, address = "10.70.0.2/24", routes = [] } = scenario;
  const lab = new EngineLab({ config });
  const element = { name: "net-a", ...(defaultRoute && { "default-route": defaultRoute }) };
  const annotations = { [networksAnnotation]: JSON.stringify([element]), ...scenario.annotations };
  const pod = lab.source.addPod({ name: "web", annotations });
  const [first = "macvlan", ...more] = scenario.plugins ?? [];
  lab.source.addNad("default/net-a", network("net-a", first, ...more));
  lab.source.ranges = { services: ["10.96.0.0/12"], node: ["192.0.2.7/32"] };
  const add = (type: string, ip: string, more: readonly object[]) =>
    lab.plugins.script(`${type} ADD`, ({ ifName }) => {
      lab.kernel.addLink(netns, ifName, [ip]);
      if (ifName === "eth0")
        lab.kernel.addDefaultRoute(netns, { dev: "eth0", gateway: "10.244.1.1" });
      const interfaces = [{ name: ifName, sandbox: netns }];
      const ips = [{ address: ip, interface: 0 }];
      return exited(0, { cniVersion: "1.0.0", interfaces, ips, routes: more });
    });
  const podRange = [{ dst: "10.244.0.0/16", gw: "10.244.1.1" }];
  add("ptp", "10.244.1.5/24", [...podRange, { dst: "0.0.0.0/0", gw: "10.244.1.1" }]);
  add(first, address, routes);
  expect(await lab.add({ pod: `default/web/${pod.uid}` })).toMatchObject({ exitCode: 0 });
  const state = { hostNetwork: false, phase: "Running", isTerminating: false };
  const facts = { ...pod, ...state, node: "n1", podIps: ["10.244.1.5"], networkStatus: undefined };
  return lab.engine.explain(pod, {
    pods: { find: async () => facts },
    node: { name: "n1" },
    conf: lab.conf,
    searchPath: ["/opt/cni/bin"],
    findPlugin: async (type) => lab.plugins.find(type),
    netlink: lab.kernel.transport,
  });
}

const wide = [{ dst: "10.0.0.0/8", gw: "10.70.0.1" }];
const defaultRoute = ["10.70.0.1"];
const pods = ["10.244.0.0/16"];

test.each<[title: string, Scenario, shadows: readonly string[]]>([
  ["a requested default route", { defaultRoute }, ["10.96.0.0/12"]],
  ["a wide route", { routes: wide }, ["10.96.0.0/12"]],
  [
    "a default route that its plugin has set unasked",
    { routes: [{ dst: "0.0.0.0/0", gw: "10.70.0.1" }] },
    ["10.96.0.0/12"],
  ],
  [
    "a part of a range, also of one that is kept",
    { config: { clusterRoutes: pods }, routes: [{ dst: "10.244.7.0/24" }] },
    pods,
  ],
  ["addresses of the cluster", { address: "10.97.0.2/24" }, ["10.96.0.0/12"]],
])("explain warns of %s", async (_, scenario, shadows) => {
  const { networks, advice } = await explain(scenario);
  expect(networks[1]).toMatchObject({ ifName: "net1", shadows });
  expect(advice).toMatchObject({ finding: "ClusterShadowed", ok: true });
  expect(advice.sentence).toBe(
    `All networks are attached: eth0=default-net, net1=default/net-a. But the pod reaches ${shadows[0]} of the cluster by default/net-a (net1): set clusterRoutes (docs/user/networks.md, "Default route that keeps the cluster") and create the pod again, or give the network other ranges.`,
  );
});

test.each<[title: string, Scenario]>([
  ["a network without routes", {}],
  ["the node's own address, as many networks have its LAN", { address: "192.0.2.9/24" }],
  ["a wide route where the cluster is kept", { config: { clusterRoutes: pods }, routes: wide }],
  ["a route of another table", { routes: [{ ...wide[0], table: 100 }] }],
  ["routes that sbr moves", { routes: wide, plugins: ["macvlan", "sbr"] }],
  [
    "a pod that wants it so",
    { defaultRoute, annotations: { "plexus.dev/cluster-routes": "none" } },
  ],
])("explain does not warn of %s", async (_, scenario) => {
  const { networks, advice } = await explain(scenario);
  expect(networks[1]).not.toHaveProperty("shadows");
  expect(advice).toMatchObject({ finding: "Attached", ok: true });
});
