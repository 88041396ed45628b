import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  benchWithContainer,
  benchWithNetwork,
  bridgeList,
  type DriverBench,
  key,
  sandbox,
  staging,
} from "#docker/testing/driver-bench.ts";

/** A network whose plugin has no capabilities and needs no interface for a DEL. */
const plainList = { cniVersion: "1.0.0", name: "plain", plugins: [{ type: "macvlan" }] };
const mac = "aa:bb:cc:00:00:01";

/** The configuration that the last call carried. */
function lastConf(bench: DriverBench) {
  const conf = bench.machine.made.at(-1)?.conf as {
    delegates: { plugins: Record<string, unknown>[] }[];
    runtimeConfig: unknown;
  };
  return { plugins: conf.delegates[0]?.plugins ?? [], runtimeConfig: conf.runtimeConfig };
}

test("an endpoint is attached in a staging namespace and answered with the kernel's addresses [M-6.1] [M-6.2] [M-6.3] [M-6.7]", async () => {
  const bench = await benchWithNetwork();
  const answer = await bench.createEndpoint("e1", {
    Options: {
      "com.docker.network.endpoint.exposedports": [{ Proto: 6, Port: 80 }],
      "com.docker.network.portmap": null,
      other: { any: "thing" },
    },
    Interface: { Address: "", AddressIPv6: "", MacAddress: "" },
  });
  expect(answer).toEqual({ Address: "10.1.0.5/24", MacAddress: mac });
  expect(bench.machine.calls).toEqual([`ADD e1 in ${staging} as eth0`]);
});

test("both families are answered; an address whose subnet has no route gets a host prefix [M-6.7]", async () => {
  const bench = await benchWithNetwork();
  bench.machine.next = {
    addresses: ["10.1.0.5/24", "fd00::5/64"],
    routes: [
      { dst: "10.1.0.1/32", metric: 0, isFromAddress: false },
      { dst: "10.1.0.0/24", gateway: "10.1.0.1", metric: 0, isFromAddress: false },
      { dst: "fd00::/64", metric: 256, isFromAddress: true },
    ],
  };
  expect(await bench.createEndpoint("e1")).toMatchObject({
    Address: "10.1.0.5/32",
    AddressIPv6: "fd00::5/64",
  });
  expect(await bench.join("e1", sandbox)).toMatchObject({
    StaticRoutes: [
      { Destination: "10.1.0.1/32", RouteType: 1 },
      { Destination: "10.1.0.0/24", RouteType: 0, NextHop: "10.1.0.1" },
    ],
  });
});

test.each([
  ["may be null, and have only a MAC", { addresses: [], routes: [] }, { MacAddress: mac }],
  ["of ipvlan has its device's MAC", { kind: "ipvlan" }, { Address: "10.1.0.5/24" }],
])("an interface %s: only its own values are answered [M-6.3] [M-6.7]", async (_, next, answer) => {
  const bench = await benchWithNetwork();
  bench.machine.next = next;
  expect(await bench.createEndpoint("e1", { Interface: null, Options: null })).toEqual(answer);
});

test("addresses of Docker's IPAM are passed to the plugin, with its gateways and the network's routes [M-4.6] [M-6.4] [M-6.5] [M-6.8]", async () => {
  const bench = await benchWithNetwork({
    IPv4Data: [
      { AddressSpace: "LocalDefault", Pool: "10.2.0.0/24", Gateway: "10.2.0.1/24" },
      { AddressSpace: "LocalDefault", Pool: "10.1.0.0/24", Gateway: "10.1.0.254/24" },
    ],
    IPv6Data: [{ Pool: "fd00::/64", Gateway: "fd00::1/64" }],
  });
  bench.machine.next = {
    addresses: ["10.1.0.77/24", "fd00::77/64"],
    routes: [
      { dst: "10.1.0.0/24", metric: 0, isFromAddress: true },
      { dst: "fd00::/64", metric: 256, isFromAddress: true },
    ],
  };
  const answer = await bench.createEndpoint("e1", {
    Interface: { Address: "10.1.0.77/24", AddressIPv6: "fd00::77/64", MacAddress: "" },
  });
  expect(answer).toEqual({ MacAddress: mac });
  expect(lastConf(bench).plugins[0]?.ipam).toEqual({
    type: "static",
    addresses: [
      { address: "10.1.0.77/24", gateway: "10.1.0.254" },
      { address: "fd00::77/64", gateway: "fd00::1" },
    ],
    routes: [{ dst: "0.0.0.0/0" }],
  });
});

test("a network without IPAM gets Docker's addresses with a default route through each gateway [M-4.6]", async () => {
  const list = { cniVersion: "1.0.0", name: "l2", plugins: [{ type: "macvlan", ipam: {} }] };
  const bench = await benchWithNetwork(
    { IPv4Data: [{ Pool: "10.1.0.0/24", Gateway: "10.1.0.1" }] },
    list,
  );
  await bench.createEndpoint("e1", { Interface: { Address: "10.1.0.5/24" } });
  expect(lastConf(bench).plugins[0]?.ipam).toMatchObject({ routes: [{ dst: "0.0.0.0/0" }] });
});

test("a network that reaches its subnet through a gateway is rejected with Docker's IPAM", async () => {
  const bench = await benchWithNetwork();
  bench.machine.next = { routes: [{ dst: "10.1.0.1/32", metric: 0, isFromAddress: false }] };
  const body = { ...key, Interface: { Address: "10.1.0.5/24" } };
  expect((await bench.call("CreateEndpoint", body)).json.Err).toContain("--ipam-driver null");
  expect(bench.machine.calls).toHaveLength(2);
  expect(await bench.machine.names()).toEqual([]);
});

test("a MAC of the request is passed to a plugin with that capability, and is not answered [M-6.6] [M-6.8]", async () => {
  const bench = await benchWithNetwork();
  const Interface = { MacAddress: "02:00:00:00:00:77" };
  expect(await bench.createEndpoint("e1", { Interface })).toEqual({ Address: "10.1.0.5/24" });
  expect(lastConf(bench).runtimeConfig).toEqual({ mac: "02:00:00:00:00:77" });
});

test("options of the container become runtimeConfig", async () => {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1", {
    Options: {
      "plexus.ips": "10.1.0.9/24, fd00::9",
      "Plexus.Bandwidth": "ingress=8m,egress=1G",
      "com.docker.network.portmap": [
        { Proto: 6, IP: "", Port: 80, HostIP: "", HostPort: 0, HostPortEnd: 0 },
        { Proto: 17, IP: "", Port: 53, HostIP: "127.0.0.1", HostPort: 5300, HostPortEnd: 5310 },
      ],
    },
  });
  expect(lastConf(bench).runtimeConfig).toEqual({
    ips: ["10.1.0.9/24", "fd00::9"],
    portMappings: [
      { hostPort: 40_000, containerPort: 80, protocol: "tcp" },
      { hostPort: 5300, containerPort: 53, protocol: "udp", hostIP: "127.0.0.1" },
    ],
    bandwidth: {
      ingressRate: 8e6,
      ingressBurst: 800_000,
      egressRate: 1e9,
      egressBurst: 100_000_000,
    },
  });
});

test.each([
  ["0", {}],
  ["ingress=0,egress=0k", {}],
  ["ingress=8m,egress=0", { bandwidth: { ingressRate: 8e6, ingressBurst: 800_000 } }],
])("the bandwidth %s has no limit where it is 0", async (text, runtimeConfig) => {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1", { Options: { "plexus.bandwidth": text } });
  expect(lastConf(bench).runtimeConfig).toEqual(runtimeConfig);
});

test("the next port of a range is taken when another endpoint has the first", async () => {
  const bench = await benchWithNetwork();
  const published = { Proto: 6, Port: 80, HostPort: 8000, HostPortEnd: 8001 };
  const Options = { "com.docker.network.portmap": [published] };
  await bench.createEndpoint("e1", { Options });
  await bench.createEndpoint("e2", { Options });
  expect(lastConf(bench).runtimeConfig).toMatchObject({ portMappings: [{ hostPort: 8001 }] });
  expect(await bench.error("CreateEndpoint", { ...key, EndpointID: "e3", Options })).toBe(
    "cannot publish port 80/tcp: port 8000-8001 of 0.0.0.0 is in use",
  );
});

test.each([
  [{ "plexus.ips": "10.1.0.300" }, "--driver-opt plexus.ips: must be addresses"],
  [{ "plexus.bandwidth": "fast" }, "--driver-opt plexus.bandwidth: must be a rate"],
  [{ "plexus.bandwidth": "10000000g" }, "--driver-opt plexus.bandwidth: must be a rate"],
  [{ "plexus.bandwidth": "ingress=1M,other=2M" }, "--driver-opt plexus.bandwidth: must be a rate"],
  [{ "plexus.colour": "red" }, "plexus.colour: unknown key"],
  [{ "com.docker.network.endpoint.ifname": "a b" }, "interface name"],
  [
    { "com.docker.network.endpoint.ifname": "net%d" },
    'interface name contains % or a control character, got "net%d"',
  ],
  [{ "com.docker.network.portmap": [{ Proto: 1, Port: 80 }] }, "[0].Proto: must be 6, 17 or 132"],
  [
    { "plexus.ips": "10.1.0.9" },
    "--driver-opt plexus.ips: no plugin of network plain has the capability ips",
  ],
  [{ "plexus.bandwidth": "1M" }, "plexus.bandwidth: no plugin"],
])("the options %j are rejected", async (Options, problem) => {
  const bench = await benchWithNetwork({}, plainList);
  const body = { ...key, Interface: {}, Options };
  expect(await bench.error("CreateEndpoint", body)).toContain(problem);
  expect(bench.machine.calls).toEqual([]);
});

test("a network that cannot publish ports ignores them with a warning", async () => {
  const bench = await benchWithNetwork({}, plainList);
  const published = [{ Proto: 6, Port: 80, HostPort: 8080 }];
  await bench.createEndpoint("e1", { Options: { "com.docker.network.portmap": published } });
  expect(lastConf(bench).runtimeConfig).toEqual({});
  expect(bench.logger.at("warn")).toEqual([
    "no plugin of network plain has the capability portMappings: it publishes no ports",
  ]);
});

test("one of a container's networks publishes its port; another container cannot have it", async () => {
  const bench = await benchWithNetwork();
  const network = JSON.stringify({ ...bridgeList, name: "blue" });
  const generic = { "plexus.network": network };
  const Options = { "com.docker.network.generic": generic };
  await bench.done("CreateNetwork", { NetworkID: "n2", Options });
  const published = [{ Proto: 6, Port: 80, HostPort: 8080 }];
  const withPort = { Options: { "com.docker.network.portmap": published } };
  await bench.createEndpoint("e1", withPort);
  await bench.join("e1", sandbox);
  for (const id of ["e2", "e3"]) await bench.createEndpoint(id, { ...withPort, NetworkID: "n2" });
  expect(lastConf(bench).runtimeConfig).toEqual({});
  expect(await bench.join("e2", sandbox)).toHaveProperty("InterfaceName");
  await expect(bench.join("e3", "/var/run/docker/netns/other")).rejects.toThrow(
    "cannot publish port 8080: a container on network red has it",
  );
});

test("Join hands over the interface with its routes; dockerd names it [M-9.1] [M-9.2] [M-9.3] [M-9.4] [M-9.5] [M-9.6] [M-9.7]", async () => {
  const bench = await benchWithNetwork();
  bench.machine.next = {
    addresses: ["10.1.0.5/24", "fd00::5/64"],
    routes: [
      { dst: "10.1.0.0/24", metric: 0, isFromAddress: true },
      { dst: "fd00::/64", metric: 256, isFromAddress: true },
      { dst: "fe80::/64", metric: 256, isFromAddress: true },
      { dst: "0.0.0.0/0", gateway: "10.1.0.9", metric: 20, isFromAddress: false },
      { dst: "0.0.0.0/0", gateway: "10.1.0.1", metric: 0, isFromAddress: false },
      { dst: "::/0", gateway: "fe80::1", metric: 1024, isFromAddress: false },
      { dst: "10.9.0.0/16", gateway: "10.1.0.2", metric: 0, isFromAddress: false },
      { dst: "10.8.0.0/16", metric: 0, isFromAddress: false },
    ],
  };
  await bench.createEndpoint("e1");
  expect(await bench.join("e1", sandbox)).toEqual({
    InterfaceName: { SrcName: "plxe1", DstPrefix: "eth" },
    Gateway: "10.1.0.1",
    GatewayIPv6: "fe80::1",
    StaticRoutes: [
      { Destination: "10.8.0.0/16", RouteType: 1 },
      { Destination: "10.9.0.0/16", RouteType: 0, NextHop: "10.1.0.2" },
    ],
    DisableGatewayService: true,
  });
  expect(bench.machine.ownLinks).toEqual(["plxe1"]);
  expect(await bench.machine.names()).toEqual([]);
});

test("a gateway outside of all subnets gets a route [M-9.7]", async () => {
  const bench = await benchWithNetwork();
  bench.machine.next = {
    addresses: ["10.1.0.5/32"],
    routes: [{ dst: "0.0.0.0/0", gateway: "169.254.1.1", metric: 0, isFromAddress: false }],
  };
  await bench.createEndpoint("e1");
  expect(await bench.join("e1", sandbox)).toMatchObject({
    Gateway: "169.254.1.1",
    StaticRoutes: [{ Destination: "169.254.1.1/32", RouteType: 1 }],
  });
});

test("a route that another network of the container has is not added twice", async () => {
  const bench = await benchWithNetwork();
  const extra = (gateway: string) => ({
    dst: "10.99.0.0/16",
    gateway,
    metric: 0,
    isFromAddress: false,
  });
  const subnet = (dst: string) => ({ dst, metric: 0, isFromAddress: true });
  const routed = { dst: "10.8.0.0/16", metric: 0, isFromAddress: false };
  const networks = [
    [subnet("10.1.0.0/24"), extra("10.1.0.1"), routed],
    [
      subnet("10.2.0.0/24"),
      extra("10.2.0.1"),
      { ...extra("10.2.0.2"), metric: 9 },
      subnet("10.1.0.0/24"),
    ],
  ];
  const answers = [];
  for (const [index, routes] of networks.entries()) {
    bench.machine.next = { addresses: [`10.${index + 1}.0.5/24`], routes };
    await bench.createEndpoint(`e${index}`);
    answers.push((await bench.join(`e${index}`, sandbox)).StaticRoutes);
  }
  const onLink = { Destination: "10.8.0.0/16", RouteType: 1 };
  const first = { Destination: "10.99.0.0/16", RouteType: 0, NextHop: "10.1.0.1" };
  expect(answers).toEqual([[onLink, first], []]);
  // Another container gets them all, the one with the lowest metric first.
  await bench.createEndpoint("e2");
  const other = { Destination: "10.99.0.0/16", RouteType: 0, NextHop: "10.2.0.1" };
  expect(await bench.join("e2", `${sandbox}2`)).toMatchObject({ StaticRoutes: [other] });
});

const internal = {
  "com.docker.network.internal": true,
  "com.docker.network.generic": { "plexus.network": JSON.stringify(bridgeList) },
};

test.each([
  ["plexus.gateway=none", { options: { "plexus.gateway": "none" } }, true],
  ["plexus.gateway=docker", { options: { "plexus.gateway": "docker" } }, false],
  ["--internal", { Options: internal }, true],
] as const)("with %s there is no gateway [M-9.8]", async (_option, extra, disables) => {
  const bench = await benchWithNetwork(extra);
  await bench.createEndpoint("e1");
  const answer = await bench.join("e1", sandbox);
  expect(answer).toMatchObject({ StaticRoutes: [], DisableGatewayService: disables });
  expect(answer).not.toHaveProperty("Gateway");
});

test("the interface name that the user requested is passed on with the network's prefix [M-13.5]", async () => {
  const bench = await benchWithNetwork({ options: { "plexus.ifprefix": "net" } });
  await bench.createEndpoint("e1", {
    Options: { "com.docker.network.endpoint.ifname": "lan0" },
  });
  expect(await bench.join("e1", sandbox)).toMatchObject({
    InterfaceName: { SrcName: "plxe1", DstPrefix: "net", DstName: "lan0" },
  });
});

test("EndpointOperInfo describes the endpoint [M-7.1]", async () => {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1");
  expect(await bench.done("EndpointOperInfo", key)).toEqual({
    Value: { "com.docker.network.endpoint.macaddress": expect.stringMatching(/^..(:..){5}$/) },
  });
});

test("calls for unknown endpoints have no effect", async () => {
  const bench = await benchWithNetwork();
  for (const method of ["Leave", "DeleteEndpoint"]) {
    expect(await bench.done(method, key)).toEqual({});
  }
  for (const method of ["Join", "EndpointOperInfo"]) {
    const body = { ...key, SandboxKey: sandbox };
    expect(await bench.error(method, body)).toBe("endpoint e1 is not known");
  }
});

test("an endpoint that leaves is detached with its interface and addresses in the staging namespace [M-8.1] [M-10.1]", async () => {
  const bench = await benchWithContainer();
  expect(await bench.done("Leave", key)).toEqual({});
  bench.machine.stopContainer(sandbox, "plxe1");
  expect(await bench.done("DeleteEndpoint", key)).toEqual({});
  expect(bench.machine.calls.at(-1)).toBe(`DEL e1 in ${staging} as eth0 with 10.1.0.5/24`);
  expect(bench.machine.ownLinks).toEqual([]);
  expect(await bench.machine.names()).toEqual([]);
});

test("an endpoint that never joined is detached in its staging namespace [M-8.1]", async () => {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1");
  await bench.done("DeleteEndpoint", key);
  expect(bench.machine.calls.at(-1)).toBe(`DEL e1 in ${staging} as eth0 with 10.1.0.5/24`);
});

test.each([
  ["gets a substitute if the plugin needs one", bridgeList, `${staging} as eth0 with 10.1.0.5/24`],
  ["else needs no namespace", plainList, "none as eth0"],
])("a DEL whose interface is gone with its container %s", async (_, list, place) => {
  const bench = await benchWithContainer(list);
  bench.machine.killContainer(sandbox);
  await bench.done("DeleteEndpoint", key);
  const substitutes = list === bridgeList ? ["substitute eth0 with 10.1.0.5/24"] : [];
  expect(bench.machine.calls.slice(1)).toEqual([...substitutes, `DEL e1 in ${place}`]);
});

test("repeated calls get the same answers and execute nothing again", async () => {
  const bench = await benchWithNetwork();
  const first = await bench.createEndpoint("e1");
  expect(await bench.createEndpoint("e1")).toEqual(first);
  const joined = await bench.join("e1", sandbox);
  expect(await bench.join("e1", sandbox)).toEqual(joined);
  bench.machine.startContainer(sandbox, "plxe1");
  expect(await bench.error("Join", { ...key, SandboxKey: sandbox, Options: {} })).toBe(
    "endpoint e1 cannot be joined to a container: it is joined",
  );
  await bench.done("Leave", key);
  await bench.done("Leave", key);
  bench.machine.stopContainer(sandbox, "plxe1");
  await bench.done("DeleteEndpoint", key);
  await bench.done("DeleteEndpoint", key);
  expect(bench.machine.calls).toHaveLength(2);
});

test("an endpoint whose ADD fails is detached, and the user gets the plugin's error", async () => {
  const bench = await benchWithNetwork();
  bench.machine.addFailures.push("no range set for host-local");
  expect(await bench.error("CreateEndpoint", { ...key, Interface: {}, Options: {} })).toBe(
    "no range set for host-local",
  );
  expect(bench.machine.calls).toEqual([
    `ADD e1 in ${staging} as eth0`,
    `DEL e1 in ${staging} as eth0`,
  ]);
  expect(await bench.machine.names()).toEqual([]);
  expect(await bench.endpoints()).toEqual([]);
});

test("an endpoint that would lose interfaces or addresses is rejected and detached", async () => {
  const bench = await benchWithNetwork();
  bench.machine.further = ["eth7"];
  expect(await bench.error("CreateEndpoint", { ...key, Interface: {} })).toContain(
    "makes further interfaces (eth7)",
  );
  bench.machine.further = [];
  bench.machine.next = { addresses: ["10.1.0.5/24", "10.1.0.6/24"] };
  const second = await bench.call("CreateEndpoint", { ...key, EndpointID: "e2", Interface: {} });
  expect(second.json.Err).toContain("keep only one IPv4 address of 10.1.0.5/24, 10.1.0.6/24");
  expect(await bench.endpoints()).toEqual([]);
});

test("a failed DEL is returned to dockerd and retried later", async () => {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1");
  bench.machine.delFailures.push("the plugin hangs");
  expect(await bench.error("DeleteEndpoint", key)).toBe("the plugin hangs");
  await bench.detachForgotten();
  expect(bench.machine.calls.filter((call) => call.startsWith("DEL"))).toHaveLength(2);
  expect(await bench.endpoints()).toEqual([]);
});

test("direct mode attaches inside the container under a free name, and detaches when it leaves", async () => {
  const bench = await benchWithNetwork({ options: { "plexus.mode": "direct" } });
  expect(await bench.createEndpoint("e1")).toEqual({});
  expect(bench.machine.calls).toEqual([]);
  bench.machine.namespaces.set(sandbox, new Map());
  expect(await bench.join("e1", sandbox)).toEqual({
    InterfaceName: {},
    StaticRoutes: [],
    DisableGatewayService: true,
  });
  await bench.createEndpoint("e2");
  await bench.join("e2", sandbox);
  await bench.done("Leave", key);
  await bench.done("DeleteEndpoint", key);
  expect(bench.machine.calls).toEqual([
    `ADD e1 in ${sandbox} as net0`,
    `ADD e2 in ${sandbox} as net1`,
    `DEL e1 in ${sandbox} as net0 with 10.1.0.5/24`,
  ]);
});

test.each(["staged", "direct"])("in %s mode no attached endpoint is forgotten", async (mode) => {
  const bench = await benchWithNetwork({ options: { "plexus.mode": mode } });
  bench.machine.namespaces.set(sandbox, new Map());
  bench.machine.duringAdd = () => bench.detachForgotten();
  await bench.createEndpoint("e1");
  await bench.join("e1", sandbox);
  expect(bench.machine.calls).toHaveLength(1);
  expect(await bench.endpoints()).toEqual(["e1.json"]);
});

test("direct mode is rejected if the container has no namespace yet", async () => {
  const bench = await benchWithNetwork({ options: { "plexus.mode": "direct" } });
  await bench.createEndpoint("e1");
  expect(await bench.error("Join", { ...key, SandboxKey: sandbox })).toContain(
    "Docker Engine 28 or later",
  );
  await bench.done("DeleteEndpoint", key);
  expect(bench.machine.calls).toEqual([]);
});

test("an ADD that fails inside a container is rolled back there", async () => {
  const bench = await benchWithNetwork({ options: { "plexus.mode": "direct" } });
  await bench.createEndpoint("e1");
  bench.machine.namespaces.set(sandbox, new Map());
  bench.machine.addFailures.push("no such device");
  expect(await bench.error("Join", { ...key, SandboxKey: sandbox })).toBe("no such device");
  expect(bench.machine.calls.at(-1)).toBe(`DEL e1 in ${sandbox} as net0`);
  expect(await bench.done("DeleteEndpoint", key)).toEqual({});
});

test("networks and endpoints survive a restart, which cleans up their directories", async () => {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1");
  await bench.stop();
  await writeFile(join(bench.dir, "endpoints/e9.json"), "{");
  await writeFile(join(bench.dir, "endpoints/.e1.json.0123456789ab0.tmp"), "{");
  await bench.start();
  expect(await bench.join("e1", sandbox)).toMatchObject({ Gateway: "10.1.0.1" });
  expect(await bench.endpoints()).toEqual(["e1.json", "e9.json.damaged"]);
});
