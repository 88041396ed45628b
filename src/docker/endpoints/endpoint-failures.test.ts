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

test("an endpoint is not attached when the disk is full", async () => {
  const bench = await benchWithNetwork();
  bench.diskFull = true;
  expect(await bench.error("CreateEndpoint", { ...key, Interface: {}, Options: {} })).toContain(
    "no space left on device",
  );
  expect(bench.machine.calls).toEqual([]);
});

test("a container's endpoint is detached even when the disk is full", async () => {
  const bench = await benchWithContainer();
  bench.diskFull = true;
  await bench.call("Leave", key);
  bench.machine.stopContainer(sandbox, "plxe1");
  await bench.done("DeleteEndpoint", key);
  expect(bench.machine.calls.at(-1)).toBe(`DEL e1 in ${staging} as eth0 with 10.1.0.5/24`);
  expect(bench.machine.ownLinks).toEqual([]);
  expect(await bench.endpoints()).toEqual([]);
});

async function benchWithFailedJoin(): Promise<DriverBench> {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1");
  bench.diskFull = true;
  await expect(bench.join("e1", sandbox)).rejects.toThrow("no space left on device");
  return bench;
}

test("an endpoint whose Join could not be written is detached when dockerd deletes it", async () => {
  const bench = await benchWithFailedJoin();
  await bench.done("DeleteEndpoint", key);
  expect(bench.machine.ownLinks).toEqual([]);
  expect(await bench.machine.names()).toEqual([]);
});

test("a Join that was interrupted after the interface was moved can be repeated after a restart", async () => {
  const bench = await benchWithFailedJoin();
  await bench.stop();
  bench.diskFull = false;
  await bench.start();
  expect(await bench.join("e1", sandbox)).toMatchObject({ InterfaceName: { SrcName: "plxe1" } });
  expect(bench.machine.ownLinks).toEqual(["plxe1"]);
});

test("an endpoint whose Join could not be written is detached after two minutes without a call", async () => {
  const bench = await benchWithFailedJoin();
  bench.diskFull = false;
  await bench.detachForgotten();
  bench.nowMs += 180_000;
  await bench.detachForgotten();
  expect(bench.machine.ownLinks).toEqual([]);
  expect(await bench.endpoints()).toEqual([]);
});

test("a full disk does not detach running containers, and causes no warnings", async () => {
  const bench = await benchWithContainer();
  bench.diskFull = true;
  for (let run = 1; run <= 3; run++) await bench.detachForgotten();
  expect(bench.logger.at("warn")).toEqual([]);
  expect(await bench.endpoints()).toEqual(["e1.json"]);
});

test("an endpoint of a deleted network cannot join, and is detached", async () => {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1");
  await bench.createEndpoint("e2");
  await bench.join("e2", sandbox);
  await bench.done("DeleteNetwork", { NetworkID: "n1" });
  await expect(bench.join("e1", sandbox)).rejects.toThrow("network n1 is not known");
  await bench.done("DeleteEndpoint", key);
  await bench.done("Leave", { NetworkID: "n1", EndpointID: "e2" });
  await bench.done("DeleteEndpoint", { NetworkID: "n1", EndpointID: "e2" });
  expect(bench.machine.ownLinks).toEqual([]);
  expect(await bench.endpoints()).toEqual([]);
});

test.each([
  ["", { name: "red", plugins: [{ type: "macvlan" }] }, "none as eth0"],
  [" with a substitute", bridgeList, `${staging} as eth0 with 10.1.0.5/24`],
])("an endpoint whose staging namespace lost its mount is detached%s", async (_, list, place) => {
  const bench = await benchWithNetwork({}, { cniVersion: "1.0.0", ...list });
  await bench.createEndpoint("e1");
  bench.machine.loseMount(staging);
  await expect(bench.join("e1", sandbox)).rejects.toThrow(staging);
  await bench.done("DeleteEndpoint", key);
  expect(bench.machine.calls.at(-1)).toBe(`DEL e1 in ${place}`);
  expect(await bench.machine.names()).toEqual([]);
  expect(await bench.endpoints()).toEqual([]);
});

test("concurrent calls for one endpoint run one after another", async () => {
  const bench = await benchWithNetwork();
  await Promise.all([1, 2, 3].map(() => bench.createEndpoint("e1")));
  await Promise.all([1, 2, 3].map(() => bench.join("e1", sandbox)));
  const removals = [1, 2, 3].map(() => bench.done("DeleteEndpoint", key));
  await Promise.all([...removals, bench.detachForgotten()]);
  expect(bench.machine.calls.map((call) => call.split(" ")[0])).toEqual(["ADD", "DEL"]);
  expect(await bench.endpoints()).toEqual([]);
});
