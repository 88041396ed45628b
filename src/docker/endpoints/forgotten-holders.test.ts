import { expect, test } from "vitest";
import {
  benchWithNetwork,
  bridgeList,
  type DriverBench,
  key,
  sandbox,
} from "#docker/testing/driver-bench.ts";

/** A container that requests an address and a port of the host. */
const fixed = {
  Options: {
    "plexus.ips": "10.1.0.200",
    "com.docker.network.portmap": [{ Proto: 6, Port: 80, HostPort: 8080, HostPortEnd: 8080 }],
  },
};
const address = { Options: { "plexus.ips": "10.1.0.200" } };
const port = {
  Options: { "com.docker.network.portmap": fixed.Options["com.docker.network.portmap"] },
};

/** A driver with the endpoint `e1` in a container that the driver has seen. */
async function benchWithHolder(options: object = fixed): Promise<DriverBench> {
  const bench = await benchWithNetwork();
  const generic = { "plexus.network": JSON.stringify({ ...bridgeList, name: "blue" }) };
  const Options = { "com.docker.network.generic": generic };
  await bench.done("CreateNetwork", { NetworkID: "n2", Options });
  await bench.createEndpoint("e1", options);
  await bench.join("e1", sandbox);
  bench.machine.startContainer(sandbox, "plxe1");
  await bench.lookAtNewContainers();
  return bench;
}

async function reboot(bench: DriverBench): Promise<void> {
  await bench.stop();
  bench.bootId = "boot-2";
  bench.machine.killContainer(sandbox);
  bench.machine.plainFiles.delete(sandbox);
  await bench.start();
}

test.for<[what: string, gone: (bench: DriverBench) => unknown]>([
  ["a container of a dockerd that was killed", ({ machine }) => machine.killContainer(sandbox)],
  ["a container from before a reboot", reboot],
  [
    "a container that dockerd removed while the driver was stopped",
    async (bench) => {
      await bench.stop();
      bench.machine.stopContainer(sandbox, "plxe1");
      await bench.start();
    },
  ],
  [
    "an endpoint whose DEL failed",
    async (bench) => {
      bench.machine.killContainer(sandbox);
      bench.machine.delFailures.push("the plugin hangs");
      await bench.error("DeleteEndpoint", key);
    },
  ],
])("a new container gets the address and the port of %s at once", async ([, gone]) => {
  const bench = await benchWithHolder();
  await gone(bench);
  await bench.createEndpoint("e2", fixed);
  expect(await bench.endpoints()).toEqual(["e2.json"]);
  expect(bench.machine.made.at(-1)?.conf.runtimeConfig).toEqual({
    ips: ["10.1.0.200"],
    portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
  });
});

test("when the plugin refuses an endpoint in ADD and DEL, the answer says why it could not be added", async () => {
  const bench = await benchWithHolder(address);
  bench.machine.killContainer(sandbox);
  bench.machine.delFailures.push(undefined, "cannot be deleted", "cannot be deleted");
  const body = { ...key, EndpointID: "e2", Interface: {}, ...address };
  expect(await bench.error("CreateEndpoint", body)).toContain("10.1.0.200 is not available");
  // One that dockerd forgot was detached; the new one is tried again.
  expect(await bench.endpoints()).toEqual(["e2.json"]);
});

test.each([
  ["address", address, "requested IP address 10.1.0.200 is not available"],
  ["port", port, "cannot publish port 80/tcp: port 8080 of 0.0.0.0 is in use"],
])("a container that runs keeps its %s", async (_what, options, problem) => {
  for (const lose of [false, true]) {
    const bench = await benchWithHolder();
    // As a service does that cleans up /run; with live-restore dockerd restarts meanwhile.
    if (lose) bench.machine.loseMount(sandbox);
    const body = { ...key, EndpointID: "e2", Interface: {}, ...options };
    expect(await bench.error("CreateEndpoint", body)).toBe(problem);
    expect(await bench.endpoints()).toEqual(["e1.json"]);
  }
});

test.each(["created", "joined", "left"])("a %s container keeps its address", async (phase) => {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1", address);
  if (phase !== "created") await bench.join("e1", sandbox);
  if (phase === "left") await bench.done("Leave", key);
  const body = { ...key, EndpointID: "e2", Interface: {}, ...address };
  expect(await bench.error("CreateEndpoint", body)).toContain("is not available");
  expect(await bench.endpoints()).toEqual(["e1.json"]);
});

test("without a view of processes, the address of a killed container is free after two more runs", async () => {
  const bench = await benchWithNetwork();
  bench.machine.seesProcesses = false;
  await bench.createEndpoint("e1", address);
  await bench.join("e1", sandbox);
  bench.machine.startContainer(sandbox, "plxe1");
  await bench.lookAtNewContainers();
  bench.machine.killContainer(sandbox);
  bench.machine.plainFiles.delete(sandbox);
  const body = { ...key, EndpointID: "e2", Interface: {}, ...address };
  expect(await bench.error("CreateEndpoint", body)).toContain("is not available");
  await bench.detachForgotten();
  await bench.detachForgotten();
  await bench.createEndpoint("e2", address);
});

test("a port of a killed container on another network is published again", async () => {
  const bench = await benchWithHolder(port);
  bench.machine.killContainer(sandbox);
  await bench.createEndpoint("e2", { ...port, NetworkID: "n2" });
  expect(bench.machine.made.at(-1)?.conf.runtimeConfig).toHaveProperty("portMappings");
});

test("a container does not start without its port when the port's owner stops meanwhile", async () => {
  const bench = await benchWithHolder(port);
  await bench.createEndpoint("e2", { ...port, NetworkID: "n2" });
  await bench.done("Leave", key);
  bench.machine.stopContainer(sandbox, "plxe1");
  await bench.done("DeleteEndpoint", key);
  await expect(bench.join("e2", `${sandbox}2`)).rejects.toThrow("another container had them");
});

test("a run of the timer that detaches the holder is waited for", async () => {
  const bench = await benchWithHolder(address);
  bench.machine.killContainer(sandbox);
  const [, created] = await Promise.all([
    bench.detachForgotten(),
    bench.createEndpoint("e2", address),
  ]);
  expect(created).toHaveProperty("Address");
});

test("in direct mode a container gets the address of one that is gone when it joins", async () => {
  const bench = await benchWithNetwork({ options: { "plexus.mode": "direct" } });
  await bench.createEndpoint("e1", address);
  bench.machine.startContainer(sandbox);
  await bench.join("e1", sandbox);
  await bench.lookAtNewContainers();
  bench.machine.killContainer(sandbox);
  await bench.createEndpoint("e2", address);
  bench.machine.startContainer(`${sandbox}2`);
  expect(await bench.join("e2", `${sandbox}2`)).toMatchObject({ InterfaceName: {} });
  expect(await bench.endpoints()).toEqual(["e2.json"]);
});
