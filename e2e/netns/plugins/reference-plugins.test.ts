import { expect } from "vitest";
import {
  bridge,
  chained,
  defaultRoutes,
  hostLocal,
  list,
  macvlan,
  ptp,
} from "../../support/networks.ts";
import { leavesNothing, lifeCycle, twoPods } from "../../support/node/life-cycle.ts";
import { test } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";

test.beforeAll(async ({ node }) => {
  node.confExtra = { checkDelegates: "all" };
  await node.lab.addUplink("up0");
});

const dual = (net: number): object => ({
  ipam: hostLocal(net, { v6: true, routes: defaultRoutes }),
});
const firewall = { type: "firewall" };
const tuning = { type: "tuning", sysctl: { "net.core.somaxconn": "500" }, mtu: 1300 };
const portmap = { type: "portmap", capabilities: { portMappings: true }, snat: true };
const bandwidth = {
  type: "bandwidth",
  ingressRate: 1e8,
  ingressBurst: 1e7,
  egressRate: 1e8,
  egressBurst: 1e7,
};

const networks: { name: string; config: object }[] = [
  { name: "bridge", config: bridge("n-bridge", 11, dual(11)) },
  { name: "bridge-masq", config: bridge("n-masq", 12, { ipMasq: true }) },
  { name: "ptp", config: ptp("n-ptp", 13, dual(13)) },
  { name: "macvlan", config: macvlan("n-macvlan", 14) },
  { name: "bridge-firewall", config: chained(bridge("n-fw", 15), firewall) },
  { name: "ptp-tuning", config: chained(ptp("n-tune", 16), tuning) },
  { name: "bridge-portmap", config: chained(bridge("n-port", 17), portmap) },
  { name: "ptp-bandwidth", config: chained(ptp("n-band", 18), bandwidth) },
  {
    name: "whole-chain",
    config: chained(bridge("n-all", 19, dual(19)), portmap, bandwidth, firewall, tuning),
  },
];

const plain = ptp("plain", 10);

test.for(networks)(
  "$name as the default network: ADD, CHECK, ping and DEL leave nothing",
  async ({ config }, { node }) => {
    node.defaultNetwork = config;
    const pods = await twoPods(node);
    const mapped = { portMappings: [{ hostPort: 8081, containerPort: 80, protocol: "tcp" }] };
    const runtimeConfig = JSON.stringify(config).includes("portmap")
      ? { runtimeConfig: mapped }
      : {};
    await leavesNothing(node, pods, () => lifeCycle(pods, { ifName: "eth0", ...runtimeConfig }));
  },
);

test.for(networks)(
  "$name as a secondary network: ADD, CHECK, ping and DEL leave nothing",
  async ({ name, config }, { node }) => {
    node.defaultNetwork = plain;
    await node.nad(name, config);
    const pods = await twoPods(node, { networks: name });
    await leavesNothing(node, pods, () => lifeCycle(pods, { ifName: "net1" }));
  },
);

test("pods with static addresses ping each other over both networks", async ({ node }) => {
  const network = (name: string, net: number, host: number): object =>
    list(name, {
      type: "bridge",
      bridge: `br${net}`,
      ipam: { type: "static", addresses: [{ address: `10.${net}.0.${host}/24` }] },
    });
  const pods: TestPod[] = [];
  for (const host of [1, 2]) {
    await node.nad(`static-${host}`, network("n-static", 21, host));
    node.defaultNetwork = network("n-static-default", 20, host);
    const pod = await node.pod(`static-${host}`, { networks: `static-${host}` });
    pods.push(pod);
    const result = await pod.mustAdd();
    expect(result.ips.map((ip) => ip.address)).toEqual([`10.20.0.${host}/24`]);
    expect(await pod.addresses("net1")).toEqual([`10.21.0.${host}/24`]);
  }
  await pods[0]?.ping("10.20.0.2");
  await pods[0]?.ping("10.21.0.2");
  for (const pod of pods) {
    await pod.mustDel();
    expect(await pod.links()).toEqual({});
  }
});
