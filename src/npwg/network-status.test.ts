import { describe, expect, test } from "vitest";
import { parseResult } from "#cni/result/parse.ts";
import type { Result } from "#cni/result/result.ts";
import {
  type AttachmentOutcome,
  addressesOf,
  buildNetworkStatus,
  formatNetworkStatus,
  type NetworkStatus,
} from "./network-status.ts";

const veth = { name: "veth1", mac: "0a:00:00:00:00:01" };
const eth0 = { name: "net1", mac: "0a:00:00:00:00:02", mtu: 1400, sandbox: "/run/netns/x" };
const second = { name: "net1b", mac: "0a:00:00:00:00:03", sandbox: "/run/netns/x" };

function result(body: object, cniVersion = "1.1.0"): Result {
  return parseResult({ cniVersion, ...body }, { fallbackVersion: cniVersion });
}

function status(body: object, changes: Partial<AttachmentOutcome> = {}): NetworkStatus[] {
  return buildNetworkStatus({
    displayName: "ns/net",
    isDefault: false,
    ifName: "net1",
    result: result(body),
    ...changes,
  });
}

describe("buildNetworkStatus()", () => {
  test("shows the first interface with a sandbox [N-5.1.1a] [N-5.3.2.1a] [N-5.3.4.1] [N-5.3.3.1a]", () => {
    const ips = [
      { address: "10.0.0.1/24", interface: 0 },
      { address: "10.0.0.2/24", interface: 1 },
      { address: "2001:db8::2/64", interface: 1 },
    ];
    expect(status({ interfaces: [veth, eth0], ips })).toEqual([
      {
        name: "ns/net",
        interface: "net1",
        ips: ["10.0.0.2", "2001:db8::2"],
        mac: "0a:00:00:00:00:02",
        mtu: 1400,
        default: false,
        dns: {},
      },
    ]);
  });

  test("omits addresses of the host, and gives those of no interface to the last one [N-5.3.3.1c]", () => {
    const ips = [
      { address: "10.0.0.1/24", interface: 0 },
      { address: "10.0.0.3/24" },
      { address: "10.0.0.4/24", interface: -1 },
    ];
    const list = status({ interfaces: [veth, eth0, second], ips });
    expect(list[0]).not.toHaveProperty("ips");
    expect(list[1]).toMatchObject({ interface: "net1b", ips: ["10.0.0.3", "10.0.0.4"] });
  });

  test.each([
    ["the only one", [veth, eth0], [["net1", ["10.0.0.1"]]]],
    [
      "the last one",
      [veth, eth0, second],
      [
        ["net1", undefined],
        ["net1b", ["10.0.0.1"]],
      ],
    ],
  ])("gives addresses to an interface in the pod if all name the host's: %s", (...row) => {
    const [, interfaces, expected] = row;
    const list = status({ interfaces, ips: [{ address: "10.0.0.1/24", interface: 0 }] });
    expect(list.map((entry) => [entry.interface, entry.ips])).toEqual(expected);
  });

  test("omits a sandbox that is no path beside one that is, as of amazon-vpc-cni's dummy", () => {
    const dummy = { name: "dummy0a1b2c3d4e5", mac: "0", sandbox: "0" };
    const ips = [{ address: "10.0.0.2/32", interface: 1 }];
    const list = status({ interfaces: [veth, eth0, dummy], ips });
    expect(list).toMatchObject([{ interface: "net1", ips: ["10.0.0.2"] }]);
    expect(list).toHaveLength(1);
    const inVirtualMachine = { ...eth0, sandbox: "vm-1" };
    expect(status({ interfaces: [veth, inVirtualMachine], ips })).toEqual(list);
  });

  test.each([
    ["alone", [eth0]],
    ["after a host interface", [veth, eth0]],
    ["before a host interface", [eth0, veth]],
  ])("gives addresses without interface to the only sandbox interface, %s", (_, interfaces) => {
    const ips = [{ address: "10.0.0.3/24" }, { address: "10.0.0.4/24", interface: -1 }];
    expect(status({ interfaces, ips })[0]?.ips).toEqual(["10.0.0.3", "10.0.0.4"]);
  });

  test.each([
    ["no interface", []],
    ["no interface with a sandbox", [veth, { ...eth0, sandbox: "" }]],
  ])(
    "shows addresses without an interface if there is %s [N-5.3.3.1b] [N-5.1.1b]",
    (_, interfaces) => {
      const ips = [
        { address: "10.0.0.3/24" },
        { address: "10.0.0.4/24", interface: -1 },
        { address: "2001:db8::3/64" },
      ];
      const named = interfaces.length === 0 ? [] : [{ address: "10.0.0.9/24", interface: 0 }];
      expect(status({ interfaces, ips: [...named, ...ips] })).toEqual([
        { name: "ns/net", ips: ["10.0.0.3", "10.0.0.4", "2001:db8::3"], default: false, dns: {} },
      ]);
    },
  );

  test("reads results of versions before 0.3.0 [N-5.3.2.1b] [N-5.3.3.1d] [N-5.1.1c]", () => {
    const old = {
      ip4: { ip: "10.0.0.2/24", gateway: "10.0.0.1", routes: [{ dst: "0.0.0.0/0" }] },
      ip6: { ip: "2001:db8::2/64", routes: [{ dst: "::/0", gw: "2001:db8::1" }] },
      dns: { nameservers: ["10.0.0.53"] },
    };
    expect(status({}, { result: result(old, "0.2.0") })).toEqual([
      {
        name: "ns/net",
        interface: "net1",
        ips: ["10.0.0.2", "2001:db8::2"],
        default: false,
        dns: { nameservers: ["10.0.0.53"] },
        gateway: ["10.0.0.1", "2001:db8::1"],
      },
    ]);
  });

  test("adds an element for each further sandbox interface [N-5.3.5b]", () => {
    const ips = [
      { address: "10.0.0.2/24", interface: 0 },
      { address: "10.0.0.3/24", interface: 1 },
    ];
    const list = status({ interfaces: [eth0, second, veth], ips }, { isDefault: true });
    expect(list.map((entry) => [entry.interface, entry.ips, entry.default])).toEqual([
      ["net1", ["10.0.0.2"], true],
      ["net1b", ["10.0.0.3"], false],
    ]);
  });

  const gateway = "10.0.0.1";
  const addresses = ["10.0.0.2/24", "10.0.0.3/24", "10.0.0.4/24"].map((address) => ({ address }));

  // The answers of the client library's CreateNetworkStatuses(); the cases of its tests come first.
  test.each([
    {
      which: "the gateway's interface",
      interfaces: [veth, eth0, veth, second],
      more: [{ interface: 1 }, { interface: 3, gateway }],
      expected: "net1b",
    },
    {
      which: "the first interface if there is no gateway",
      interfaces: [veth, eth0, second],
      more: [{ interface: 1 }, { interface: 1 }, { interface: 2 }],
      expected: "net1",
    },
    { which: "the only sandbox interface", interfaces: [eth0, veth], more: [{}], expected: "net1" },
    {
      which: "the interface of the first of two gateways",
      interfaces: [eth0, second],
      more: [
        { interface: 1, gateway },
        { interface: 0, gateway },
      ],
      expected: "net1b",
    },
    {
      which: "the first interface if the gateway's address names no interface",
      interfaces: [eth0, second],
      more: [{ gateway }, { interface: 1 }],
      expected: "net1",
    },
    {
      which: "the interface of the second gateway if the first names no interface",
      interfaces: [eth0, second],
      more: [{ gateway }, { interface: 1, gateway }],
      expected: "net1b",
    },
    // The library marks none here, but §5.2 requires one.
    {
      which: "the first interface if the gateway is on the host",
      interfaces: [veth, eth0, second],
      more: [{ interface: 0, gateway }],
      expected: "net1",
    },
  ])("marks $which as default [N-5.2a] [N-5.3.5b]", ({ interfaces, more, expected }) => {
    const ips = more.map((each, i) => ({ ...addresses[i], ...each }));
    const list = status({ interfaces, ips }, { isDefault: true });
    const marked = list.filter((entry) => entry.default).map((entry) => entry.interface);
    expect(marked).toEqual([expected]);
    for (const entry of status({ interfaces, ips })) expect(entry.default).toBe(false);
  });

  const route = { dst: "0.0.0.0/0", gw: "10.0.0.1" };
  const others = [
    { ...route, priority: 5 },
    { dst: "0.0.0.0/0", gw: "10.0.0.9", table: 100 },
    { dst: "10.1.0.0/16", gw: "10.0.0.7" },
    { dst: "::/0" },
  ];
  const v6 = { address: "2001:db8::2/64", gateway: "2001:db8::1" };
  const v4 = { address: "10.0.0.2/24", gateway: "10.0.0.1" };
  const ofV6 = { ips: ["2001:db8::2"], gateway: ["2001:db8::1"] };
  const dns = {
    ...{ nameservers: ["192.0.2.1"], domain: "example.com" },
    ...{ search: ["a", "b"], options: ["ndots:5"] },
  };
  const deviceInfo = { type: "pci", version: "1.1.0", pci: { "pci-address": "0000:04:00.5" } };

  test.each<[what: string, result: object, Partial<AttachmentOutcome>, Partial<NetworkStatus>]>([
    ["no details of an empty result", {}, {}, {}],
    ["that it is the default network", {}, { isDefault: true }, { default: true }],
    ["no mac of an interface without a name", { interfaces: [{ ...eth0, name: "" }] }, {}, {}],
    ["DNS", { dns }, {}, { dns }],
    ["no empty DNS fields", { dns: { nameservers: [], domain: "", search: [] } }, {}, {}],
    [
      "each gateway of the main table once",
      { routes: [route, ...others] },
      {},
      { gateway: ["10.0.0.1"] },
    ],
    ["no gateway for a route without one", { routes: [{ dst: "::/0" }] }, {}, {}],
    ["an address's gateway", { routes: [{ dst: "::/0" }], ips: [v6] }, {}, ofV6],
    [
      "the gateway of the first address of the route's family that has one",
      { routes: [{ dst: "::/0" }], ips: [v4, { address: "2001:db8::9/64" }, v6] },
      {},
      { ips: ["10.0.0.2", "2001:db8::9", "2001:db8::2"], gateway: ["2001:db8::1"] },
    ],
    [
      "gateways of the main table by either number",
      {
        routes: [
          { ...route, table: 254 },
          { dst: "0.0.0.0/0", gw: "10.0.0.2", table: 0 },
        ],
      },
      {},
      { gateway: ["10.0.0.1", "10.0.0.2"] },
    ],
    [
      "the default-route that the pod requests",
      { routes: [route] },
      { defaultRoute: ["10.0.0.5"] },
      { gateway: ["10.0.0.1"], "default-route": ["10.0.0.5"] },
    ],
    [
      "the plugin's default-route",
      { routes: [route] },
      { defaultRoute: [] },
      { gateway: ["10.0.0.1"], "default-route": ["10.0.0.1"] },
    ],
    ["the given display name", {}, { displayName: "cluster-net" }, { name: "cluster-net" }],
    ["the given device information", {}, { deviceInfo }, { "device-info": deviceInfo }],
  ])(
    "shows %s [N-5.1.1b] [N-5.2a] [N-5.3.1] [N-5.3.4] [N-5.3.5a] [N-5.3.6.4] [N-5.3.6a]",
    (...[, body, changes, expected]) => {
      expect(status(body, changes)).toEqual([
        { name: "ns/net", default: false, dns: {}, ...expected },
      ]);
    },
  );

  test("has only keys of the specification and of Multus [N-5.3a]", () => {
    const specified = ["name", "interface", "ips", "mac", "default", "dns", "default-route"];
    const known = [...specified, "mtu", "gateway", "device-info"];
    const body = {
      interfaces: [{ ...eth0, socketPath: "/run/x", pciID: "0000:04:00.5" }],
      ips: [{ address: "10.0.0.2/24", gateway: "10.0.0.1", interface: 0 }],
      routes: [{ dst: "0.0.0.0/0", gw: "10.0.0.1", priority: 1 }],
      dns: { nameservers: ["10.0.0.53"] },
      "example.com/own": 1,
    };
    const [entry] = status(body, { deviceInfo });
    expect(Object.keys(entry ?? {}).filter((key) => !known.includes(key))).toEqual([]);
  });
});

test("addressesOf() gives each sandbox interface its addresses, or none", () => {
  const ips = [{ address: "10.0.0.2/24", interface: 1 }];
  expect([...addressesOf(result({ interfaces: [veth, eth0, second], ips }))]).toEqual([
    ["net1", ["10.0.0.2"]],
    ["net1b", []],
  ]);
});

test("formatNetworkStatus() writes a JSON list of maps, formatted like Multus [N-5b]", () => {
  const list = [
    ...status({ interfaces: [eth0], ips: [{ address: "10.0.0.2/24", interface: 0 }] }),
    ...status({}),
  ];
  expect(formatNetworkStatus(list)).toBe(`[{
    "name": "ns/net",
    "interface": "net1",
    "ips": [
        "10.0.0.2"
    ],
    "mac": "0a:00:00:00:00:02",
    "mtu": 1400,
    "default": false,
    "dns": {}
},{
    "name": "ns/net",
    "default": false,
    "dns": {}
}]`);
  expect(JSON.parse(formatNetworkStatus(list))).toEqual(list);
  expect(formatNetworkStatus([])).toBe("[]");
});
