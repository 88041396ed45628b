import { expect, test } from "vitest";
import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import type { Result, ResultInterface } from "#cni/result/result.ts";
import { parseNetworkSelections } from "./selection/selection.ts";
import { ignoredRequests, ignoredText } from "./served-requests.ts";

const mac = "02:00:00:00:00:01";
const device = "0000:0a:00.5";

function list(...plugins: object[]): NetConfList {
  return parseNetConfList({ cniVersion: "1.0.0", name: "net", plugins }, { source: "test" });
}

function madeWith(link: Partial<ResultInterface>, addresses: readonly string[] = []): Result {
  return {
    cniVersion: "1.0.0",
    interfaces: [{ name: "veth1" }, { name: "net1", sandbox: "/run/netns/c1", ...link }],
    ips: addresses.map((address) => ({ address, interface: 1 })),
    routes: [],
  };
}

/** As OVN-Kubernetes has it: `net1` for the infrastructure, and `ovn-udn1` with the requested address. */
function withSecond(link: Partial<ResultInterface>, ownMac = "0a:00:00:00:00:09"): Result {
  const first = madeWith({ mac: ownMac }, ["10.244.0.5/24"]);
  const second = { name: "ovn-udn1", sandbox: "/run/netns/c1", ...link };
  const ips = [...first.ips, { address: "10.0.0.1/24", gateway: "10.0.0.254", interface: 2 }];
  return { ...first, interfaces: [...first.interfaces, second], ips };
}

/** The same in the other order; `net1` has no MAC. */
function secondFirst(link: Partial<ResultInterface>): Result {
  const result = withSecond(link, "");
  return { ...result, interfaces: result.interfaces.toReversed() };
}

/** The warning about a plugin that gave this result to a pod with these keys. */
function problem(keys: object, result: Result, network = list({ type: "bridge" })): string {
  const text = JSON.stringify([{ name: "a", ...keys }]);
  const [selection] = parseNetworkSelections(text, { podNamespace: "ns" });
  if (selection === undefined) throw new Error("no selection");
  const made = { ifName: "net1", list: network, result };
  return ignoredText(ignoredRequests(selection, made), network);
}

test.each([
  ["nothing asked for", {}, madeWith({})],
  ["the MAC in another spelling", { mac }, madeWith({ mac: "02-00-00-00-00-01" })],
  ["no MAC in the result", { mac }, madeWith({})],
  ["an address with another prefix", { ips: ["10.0.0.1"] }, madeWith({}, ["10.0.0.1/16"])],
  ["an address in another spelling", { ips: ["fd00::0:1/64"] }, madeWith({}, ["fd00::1/64"])],
  ["more addresses", { ips: ["10.0.0.1/24"] }, madeWith({}, ["10.0.0.2/24", "10.0.0.1/24"])],
  ["the interface", { interface: "net1" }, madeWith({})],
  ["the device", { deviceID: device }, madeWith({ pciID: device.toUpperCase() })],
  ["a non-PCI device", { deviceID: "mlx5_core.sf.4" }, madeWith({ pciID: device })],
  [
    "an ID that begins with a PCI address",
    { deviceID: `${device}-1` },
    madeWith({ pciID: device }),
  ],
  ["an ID that ends with a PCI address", { deviceID: `1${device}` }, madeWith({ pciID: device })],
  ["the MAC on another interface of the pod", { mac }, withSecond({ mac: mac.toUpperCase() })],
  ["the address on another interface of the pod", { ips: ["10.0.0.1"] }, withSecond({})],
  ["no MAC on the interface that was asked for", { mac }, withSecond({ mac: "" }, "")],
  ["no MAC on it, after another interface", { mac }, secondFirst({ mac: "0a:00:00:00:00:02" })],
  ["no sandbox interface", { mac, interface: "x0" }, { ...madeWith({}), interfaces: [] }],
])("ignoredRequests() accepts %s", (_, keys, result) => {
  expect(problem(keys, result)).toBe("");
});

test.each([
  [
    { mac },
    madeWith({ mac: "0a:00:00:00:00:01" }),
    `"mac": the pod asks for ${mac}, the result has 0a:00:00:00:00:01`,
  ],
  [
    { ips: ["10.0.0.1/24"] },
    madeWith({}),
    '"ips": the pod asks for 10.0.0.1/24, the result has no address',
  ],
  [
    { ips: ["10.0.0.1", "fd00::1"] },
    madeWith({}, ["10.0.0.1/24", "fd00::2/64"]),
    '"ips": the pod asks for fd00::1, the result has 10.0.0.1/24, fd00::2/64',
  ],
  [
    { mac },
    withSecond({ mac: "0a:00:00:00:00:02" }),
    `"mac": the pod asks for ${mac}, the result has 0a:00:00:00:00:09`,
  ],
  [
    { interface: "data0" },
    madeWith({}),
    '"interface": the pod asks for data0, the result has net1',
  ],
  [
    { deviceID: device },
    madeWith({ pciID: "0000:0a:00.6" }),
    `"deviceID": the pod asks for ${device}, the result has 0000:0a:00.6`,
  ],
])("ignoredRequests() reports what a plugin did instead of %j", (keys, result, message) => {
  expect(problem(keys, result)).toBe(`plugin bridge ignored the key ${message}`);
});

test("ignoredText() names the plugins that declare the capability, or all if none does", () => {
  const chain = list({ type: "bridge", capabilities: { ips: true } }, { type: "tuning" });
  const message = problem(
    { mac, ips: ["10.0.0.1"] },
    madeWith({ mac: "02:00:00:00:00:09" }),
    chain,
  );
  expect(message).toMatch(
    /^plugin bridge ignored the key "ips".*; plugins bridge, tuning ignored the key "mac"/,
  );
});

test.each([
  [{ bandwidth: { ingressRate: 1000 } }, 'bandwidth": the pod asks for {"ingressRate":1000}'],
  [
    { portMappings: [{ hostPort: 80, containerPort: 8080, protocol: "tcp" }] },
    'portMappings": the pod asks for [{"hostPort":80,"containerPort":8080,"protocol":"tcp"}]',
  ],
  [
    { "infiniband-guid": "c2:11:22:33:44:55:66:77" },
    'infinibandGUID": the pod asks for c2:11:22:33:44:55:66:77',
  ],
])("ignoredRequests() reports %j if no plugin has the capability", (keys, message) => {
  expect(problem(keys, madeWith({}))).toBe(`no plugin has the capability "${message}`);
  const capabilities = { bandwidth: true, portMappings: true, infinibandGUID: true };
  expect(problem(keys, madeWith({}), list({ type: "bridge", capabilities }))).toBe("");
});

test("ignoredRequests() shortens long values", () => {
  const ips = Array.from({ length: 60 }, (_, i) => `10.0.1.${i}`);
  const given = Array.from({ length: 60 }, (_, i) => `10.0.2.${i}/24`);
  expect(problem({ ips }, madeWith({}, given))).toHaveLength(
    `plugin bridge ignored the key "ips": the pod asks for , the result has `.length + 2 * 201,
  );
});
