import { rm } from "node:fs/promises";
import { dirname } from "node:path";
import { expect, test } from "vitest";
import { bridgeList, nullIpam, startBench } from "#docker/testing/driver-bench.ts";

const endpointKey = { NetworkID: "n1", EndpointID: "e1" };
const createNetwork = {
  NetworkID: "n1",
  Options: { "com.docker.network.generic": { "plexus.network": JSON.stringify(bridgeList) } },
  ...nullIpam,
};

test("Plugin.Activate and GetCapabilities have no payload [M-2.1] [M-2.2] [M-3.1] [M-3.2]", async () => {
  const bench = await startBench();
  const activated = await bench.send("/Plugin.Activate", "");
  expect(activated).toEqual({ status: 200, json: { Implements: ["NetworkDriver"] } });
  const { json } = await bench.send("/NetworkDriver.GetCapabilities", "");
  expect(json).toEqual({ Scope: "local", ConnectivityScope: "local", GwAllocChecker: true });
});

test.each(["/NetworkDriver.Unheard", "/IpamDriver.RequestPool", "/", "/NetworkDriver.toString"])(
  "the unknown URI %s is answered with 404 [M-1.2]",
  async (path) => {
    expect(await (await startBench()).send(path, "{}")).toMatchObject({ status: 404 });
  },
);

test.each([
  ["", "the body is empty"],
  ["{", "the body is not valid JSON"],
  ["[]", "the body: "],
  ["null", "the body: "],
  ['{"NetworkID":5,"EndpointID":"e1"}', "NetworkID: "],
  ['{"NetworkID":"n1"}', "EndpointID: "],
  ['{"NetworkID":"../n1","EndpointID":"e1"}', "NetworkID: must be an identifier"],
  ['{"NetworkID":"","EndpointID":"e1"}', "NetworkID: must be an identifier"],
])("the body %s cannot be decoded and is answered with 400 [M-1.1]", async (body, problem) => {
  const bench = await startBench();
  const { status, json } = await bench.send("/NetworkDriver.Leave", body);
  expect(status).toBe(400);
  expect(json.Err).toContain(`NetworkDriver.Leave: ${problem}`);
});

test("other HTTP methods than POST, and a body over the size limit, are rejected [M-1.1]", async () => {
  const bench = await startBench();
  expect(await bench.send("/Plugin.Activate", "", "GET")).toMatchObject({ status: 405 });
  const body = JSON.stringify({ ...endpointKey, more: "x".repeat(1024 * 1024) });
  expect(await bench.send("/NetworkDriver.Leave", body)).toMatchObject({ status: 413 });
});

test.each([
  ["CreateNetwork", "IPv4Data[0].Pool", { IPv4Data: [{ Pool: "10.0.0.0/33" }] }],
  ["CreateNetwork", "IPv4Data[0].Pool", { IPv4Data: [{ Pool: "fd00::/64" }] }],
  ["CreateNetwork", "IPv6Data[0].Pool", { IPv6Data: [{ Pool: "10.0.0.0/8" }] }],
  ["CreateNetwork", "IPv4Data[0].Gateway", { IPv4Data: [{ Gateway: "fd00::1" }] }],
  ["CreateNetwork", "IPv6Data[0].Gateway", { IPv6Data: [{ Gateway: "x" }] }],
  ["CreateNetwork", "IPv4Data[0].AddressSpace", { IPv4Data: [{ AddressSpace: 1 }] }],
  ["CreateNetwork", "IPv4Data[0].AuxAddresses.a", { IPv4Data: [{ AuxAddresses: { a: "x" } }] }],
  ["CreateNetwork", "IPv4Data", { IPv4Data: {} }],
  ["CreateNetwork", "Options", { Options: [] }],
  ["CreateEndpoint", "Interface.Address", { Interface: { Address: "10.0.0.1" } }],
  ["CreateEndpoint", "Interface.AddressIPv6", { Interface: { AddressIPv6: "10.0.0.1/8" } }],
  ["CreateEndpoint", "Interface.MacAddress", { Interface: { MacAddress: "aa:bb" } }],
  ["CreateEndpoint", "Options", { Options: "x" }],
  ["Join", "SandboxKey", { SandboxKey: "" }],
  ["Join", "SandboxKey", { SandboxKey: "relative" }],
  ["DiscoverNew", "DiscoveryType", { DiscoveryType: "1" }],
])(
  "%s with an invalid %s is answered with 400 and the member's name [M-4.3] [M-4.4] [M-4.5] [M-6.4] [M-6.5] [M-6.6]",
  async (method, member, body) => {
    const bench = await startBench();
    const request = { ...createNetwork, ...endpointKey, ...body };
    const { status, json } = await bench.call(method, request);
    expect(status).toBe(400);
    expect(json.Err).toContain(`NetworkDriver.${method}: ${member}: `);
  },
);

test("a driver socket that was removed with its directory is recreated", async () => {
  const bench = await startBench();
  await rm(dirname(bench.socketPath), { recursive: true });
  await bench.ensureReachable();
  expect(await bench.send("/Plugin.Activate", "")).toMatchObject({ status: 200 });
});

test("a refused operation is answered with Err [M-1.3]", async () => {
  const bench = await startBench();
  const { status, json } = await bench.call("CreateEndpoint", { ...endpointKey, Interface: null });
  expect(status).toBe(200);
  expect(json.Err).toBe("network n1 is not known; create it again with docker network create");
});

test("no error contains values of a configuration [M-1.4]", async () => {
  const bench = await startBench();
  const secret = "s3cr3t";
  for (const network of [`{"password":"${secret}"`, `{"cniVersion":"1.0.0","token":"${secret}"}`]) {
    const generic = { "plexus.network": network };
    const Options = { "com.docker.network.generic": generic };
    const { json } = await bench.call("CreateNetwork", { ...createNetwork, Options });
    expect(json.Err).toBeTypeOf("string");
    expect(JSON.stringify(json)).not.toContain(secret);
  }
  const { json } = await bench.call("Leave", { NetworkID: { secret }, EndpointID: [secret] });
  expect(JSON.stringify(json)).not.toContain(secret);
});

test("a network's addressing data and options of dockerd are accepted and answered with {} [M-4.1] [M-4.2] [M-4.3] [M-4.4] [M-4.5] [M-4.7] [M-4.8]", async () => {
  const bench = await startBench();
  const { json } = await bench.call("CreateNetwork", {
    ...createNetwork,
    Options: {
      ...createNetwork.Options,
      "com.docker.network.enable_ipv6": false,
      "com.example.other": { any: ["thing"] },
    },
    IPv4Data: [
      {
        AddressSpace: "LocalDefault",
        AuxAddresses: { h1: "10.78.0.130/24", h2: "10.78.0.131" },
        Gateway: "10.78.0.1/24",
        Pool: "10.78.0.0/24",
      },
      { AddressSpace: "LocalDefault", Gateway: "10.79.0.1", Pool: "10.79.0.0/24" },
      { AddressSpace: "", AuxAddresses: null, Gateway: "", Pool: "" },
    ],
    IPv6Data: [{ AddressSpace: "null", Pool: "::/0", Gateway: "fd00::1" }],
    Unheard: true,
  });
  expect(json).toEqual({});
});

test("lists and maps may be null [M-4.2] [M-4.7]", async () => {
  const bench = await startBench();
  const request = { ...createNetwork, IPv4Data: null, IPv6Data: null };
  expect(await bench.done("CreateNetwork", request)).toEqual({});
  const problem = await bench.error("CreateNetwork", { ...createNetwork, Options: null });
  expect(problem).toMatch(/^-o plexus.network: /);
});

test("DeleteNetwork forgets a network, and is answered with {} for unknown ones too [M-5.1]", async () => {
  const bench = await startBench();
  await bench.createNetwork();
  for (let time = 1; time <= 2; time++) {
    expect(await bench.done("DeleteNetwork", { NetworkID: "n1" })).toEqual({});
  }
  const body = { ...endpointKey, Interface: {} };
  expect(await bench.error("CreateEndpoint", body)).toContain("n1 is not known");
});

test("DiscoverNew and DiscoverDelete accept nodes and undefined types, and answer with {} [M-11.1] [M-11.2] [M-12.1]", async () => {
  const bench = await startBench();
  for (const method of ["DiscoverNew", "DiscoverDelete"]) {
    for (const data of [
      { Address: "203.0.113.2", BindAddress: "203.0.113.2", Self: true },
      { Address: "fd00::2", self: false },
    ]) {
      expect(await bench.done(method, { DiscoveryType: 1, DiscoveryData: data })).toEqual({});
    }
    expect(await bench.done(method, { DiscoveryType: 7, DiscoveryData: [1] })).toEqual({});
  }
});

test("calls of swarm and for external connectivity change nothing [M-13.1] [M-13.2] [M-13.3]", async () => {
  const bench = await startBench();
  const allocation = { NetworkID: "swarm1", Options: { "plexus.network": "red", other: 5 } };
  const allocated = await bench.done("AllocateNetwork", { ...allocation, ...nullIpam });
  expect(allocated).toEqual({ Options: { "plexus.network": "red" } });
  expect(await bench.done("FreeNetwork", { NetworkID: "swarm1" })).toEqual({});
  for (const method of ["ProgramExternalConnectivity", "RevokeExternalConnectivity"]) {
    const body = { ...endpointKey, Options: { "com.docker.network.portmap": [] } };
    expect(await bench.done(method, body)).toEqual({});
  }
});

const macvlan = { type: "macvlan", name: "m" };
const none = { "plexus.gateway": "none" };

test.for([
  ["a bridge has the gateway's address itself", bridgeList, none, false],
  ["a macvlan network has a gateway elsewhere", macvlan, {}, false],
  ["a network without a gateway needs no address for one", macvlan, none, true],
] as const)("GwAllocCheck: %s [M-13.4]", async ([, list, options, skips]) => {
  const bench = await startBench();
  const network = JSON.stringify({ cniVersion: "1.0.0", ...list });
  const generic = { "plexus.network": network, ...options };
  const answer = await bench.done("GwAllocCheck", {
    Options: { "com.docker.network.generic": generic },
  });
  expect(answer).toEqual({ SkipIPv4: skips, SkipIPv6: skips });
});
