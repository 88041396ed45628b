import { expect } from "vitest";
import { hostKinds } from "../../support/host-state.ts";
import { bridge, hostLocal, macvlan, ptp } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { test } from "../../support/node/test.ts";

const anotherCase = { Capabilities: { ips: true }, IPAM: { Type: "static" } };

test.beforeAll(async ({ node }) => {
  await node.lab.addUplink("up0");
  node.defaultNetwork = ptp("default", 40);
  const capabilities = { ips: true, mac: true };
  const ipam = { type: "static" };
  await node.nad("macvlan-static", macvlan("macvlan-static", 41, { ipam, capabilities }));
  const pool = { ipam: hostLocal(43, { v6: true }), capabilities: { ips: true } };
  await node.nad("bridge-pool", bridge("bridge-pool", 43, pool));
  await node.nad("bridge-args", bridge("bridge-args", 44, { isGateway: false, ipam }));
});

test("the pod gets the requested addresses and MAC, reports them in its status and answers pings [N-4.1.2.1.3.2a] [N-4.1.2.1.4.2a] [N-4.1.2.1.3a] [N-4.1.2.1.4a]", async ({
  node,
}) => {
  const pods = [];
  for (const host of [7, 8]) {
    const ips = [`10.99.0.${host}/24`, `fd99::${host}/64`];
    const mac = `02:AA:00:00:00:0${host}`;
    const networks = [{ name: "macvlan-static", ips, mac }];
    const pod = await node.newPod({ networks });
    await pod.mustAdd();
    expect(await pod.addresses("net1")).toEqual(ips);
    expect((await pod.links()).net1?.address).toBe(mac.toLowerCase());
    expect((await pod.status())[1]).toMatchObject({
      name: "default/macvlan-static",
      ips: ips.map((ip) => ip.split("/")[0]),
      mac: mac.toLowerCase(),
    });
    pods.push(pod);
  }
  await pods[0]?.ping("10.99.0.8", "net1");
  await pods[0]?.ping("fd99::8", "net1");
  for (const pod of pods) await pod.mustDel();
});

test("a definition whose keys have another case attaches with the requested address, and detaches", async ({
  node,
}) => {
  const list = {
    CNIVersion: "0.4.0",
    Plugins: [{ Type: "macvlan", Master: "up0", ...anotherCase }],
  };
  await node.nad("another-list", list);
  await node.nad("another", { CNIVersion: "0.4.0", Name: "x", Type: "bridge", ...anotherCase });
  const networks = [
    { name: "another-list", ips: ["10.96.0.2/24"] },
    { name: "another", ips: ["10.96.1.2/24"] },
  ];
  const pod = await node.pod("another-case", { networks });
  await pod.mustAdd();
  expect(await pod.addresses("net1")).toEqual(["10.96.0.2/24"]);
  expect(await pod.addresses("net2")).toEqual(["10.96.1.2/24"]);
  await pod.mustDel();
});

test("host-local leases the requested address of each family, and rejects one outside its range", async ({
  node,
}) => {
  const ips = ["10.43.0.77/24", "fd00:43::77/64"];
  const good = await node.pod("pool", { networks: [{ name: "bridge-pool", ips }] });
  await good.mustAdd();
  expect(await good.addresses("net1")).toEqual(ips);
  const before = await node.hostState();
  const networks = [{ name: "bridge-pool", ips: ["192.0.2.1"] }];
  const bad = await node.pod("outside", { networks });
  expect(errorOf(await bad.add()).msg).toMatch(/default\/bridge-pool \(net1\).*192\.0\.2\.1/);
  expect(await node.changesSince(before, hostKinds)).toEqual([]);
  await good.mustDel();
});

test("cni-args reach the plugins: static uses the addresses, bridge the MAC [S-303] [N-4.1.2.1.6a]", async ({
  node,
}) => {
  const args = { ips: ["10.98.0.3/24"], mac: "02:bb:00:00:00:03" };
  const pod = await node.pod("args", { networks: [{ name: "bridge-args", "cni-args": args }] });
  await pod.mustAdd();
  expect(await pod.addresses("net1")).toEqual(args.ips);
  expect((await pod.links()).net1?.address).toBe(args.mac);
  await pod.mustDel();
});

test("the default-network annotation replaces the default network and can carry requests [N-6.2]", async ({
  node,
}) => {
  const request = {
    name: "macvlan-static",
    namespace: "default",
    ips: ["10.97.0.2/24"],
    mac: "02:cc:00:00:00:02",
    "default-route": ["10.97.0.1"],
  };
  const annotations = { "v1.multus-cni.io/default-network": JSON.stringify([request]) };
  const pod = await node.pod("default-request", { networks: "bridge-pool", annotations });
  const result = await pod.mustAdd();
  expect(result.ips).toMatchObject([{ address: "10.97.0.2/24" }]);
  expect(result.routes).toEqual([{ dst: "0.0.0.0/0", gw: "10.97.0.1" }]);
  expect((await pod.links()).eth0?.address).toBe(request.mac);
  expect(await pod.defaultRoutes(4)).toEqual(["via 10.97.0.1 dev eth0"]);
  expect((await pod.status())[0]).toMatchObject({
    name: "default/macvlan-static",
    default: true,
  });
  await pod.mustDel();
});

test("undeclared requests fail the ADD, or are passed in CNI_ARGS if allowed", async ({ node }) => {
  const requests = { ips: ["10.44.9.9/24"], mac: "02:dd:00:00:00:09" };
  const networks = [{ name: "bridge-args", ...requests }];
  const refused = await node.pod("undeclared", { networks });
  expect(errorOf(await refused.add()).msg).toMatch(/capability "ips", "mac"/);
  node.confExtra = { strictness: "multus" };
  const served = await node.pod("cni-args", { networks });
  await served.mustAdd();
  expect(await served.addresses("net1")).toEqual(requests.ips);
  expect((await served.links()).net1?.address).toBe(requests.mac);
  await served.mustDel();
  node.confExtra = {};
});
