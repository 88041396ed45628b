import { dirname } from "node:path";
import { expect, test } from "vitest";
import {
  benchWithNetwork,
  type DriverBench,
  sandbox,
  staging,
} from "#docker/testing/driver-bench.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";

const minute = 60_000;

/** With the endpoint `e1` in a running container. */
async function benchWithContainer(): Promise<DriverBench> {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1");
  await bench.join("e1", sandbox);
  bench.machine.startContainer(sandbox, "plxe1");
  return bench;
}

test("endpoints of running containers stay, however old they are", async () => {
  const bench = await benchWithContainer();
  for (let run = 1; run <= 3; run++) {
    bench.nowMs += 60 * minute;
    await bench.detachForgotten();
  }
  expect(await bench.endpoints()).toEqual(["e1.json"]);
});

test("an endpoint whose container is gone is detached the second time that it is found so", async () => {
  const bench = await benchWithContainer();
  bench.machine.namespaces.delete(sandbox);
  await bench.detachForgotten();
  expect(await bench.endpoints()).toEqual(["e1.json"]);
  await bench.detachForgotten();
  expect(await bench.endpoints()).toEqual([]);
  expect(bench.machine.calls.at(-1)).toBe(`DEL e1 in ${staging} as eth0 with 10.1.0.5/24`);
});

test("containers stay whose namespaces are in a directory that the driver does not see, and the log says it once", async () => {
  const bench = await benchWithContainer();
  bench.machine.namespaces.delete(sandbox);
  bench.machine.hiddenDirectories.add(dirname(sandbox));
  for (let run = 1; run <= 3; run++) await bench.detachForgotten();
  expect(await bench.endpoints()).toEqual(["e1.json"]);
  const warning =
    "cannot see containers' network namespaces; endpoints that dockerd forgets stay attached";
  expect(bench.logger.at("warn")).toEqual([warning]);
});

test("a container's namespace that is mounted where the driver does not see it counts as there", async () => {
  const bench = await benchWithContainer();
  bench.machine.namespaces.delete(sandbox);
  bench.machine.plainFiles.add(sandbox);
  for (let run = 1; run <= 3; run++) await bench.detachForgotten();
  expect(await bench.endpoints()).toEqual(["e1.json"]);
});

test("one that was seen and is unmounted is gone, although its file is still there", async () => {
  const bench = await benchWithContainer();
  await bench.detachForgotten();
  bench.machine.namespaces.delete(sandbox);
  bench.machine.plainFiles.add(sandbox);
  for (let run = 1; run <= 2; run++) await bench.detachForgotten();
  expect(await bench.endpoints()).toEqual([]);
});

test("one that was never seen is gone, although its file is still there, once another in its directory was seen", async () => {
  const bench = await benchWithContainer();
  bench.machine.namespaces.delete(sandbox);
  bench.machine.plainFiles.add(sandbox);
  await bench.createEndpoint("e2");
  await bench.join("e2", `${sandbox}2`);
  bench.machine.startContainer(`${sandbox}2`, "plxe2");
  for (let run = 1; run <= 3; run++) await bench.detachForgotten();
  expect(await bench.endpoints()).toEqual(["e2.json"]);
});

test("what was seen before the driver was started again still counts", async () => {
  const bench = await benchWithContainer();
  await bench.detachForgotten();
  await bench.stop();
  bench.machine.namespaces.delete(sandbox);
  bench.machine.plainFiles.add(sandbox);
  await bench.start();
  for (let run = 1; run <= 2; run++) await bench.detachForgotten();
  expect(await bench.endpoints()).toEqual([]);
});

test("an endpoint that waits for its container's namespace stays for two minutes", async () => {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1");
  await bench.join("e1", sandbox);
  for (let run = 1; run <= 2; run++) await bench.detachForgotten();
  expect(await bench.endpoints()).toEqual(["e1.json"]);
  bench.nowMs += 3 * minute;
  for (let run = 1; run <= 2; run++) await bench.detachForgotten();
  expect(await bench.endpoints()).toEqual([]);
});

test("an endpoint that left its container while the driver was away is detached although that goes on", async () => {
  const bench = await benchWithContainer();
  bench.machine.stopContainer(sandbox, "plxe1");
  bench.machine.namespaces.set(sandbox, new Map());
  await bench.detachForgotten();
  bench.nowMs += 3 * minute;
  for (let run = 1; run <= 2; run++) await bench.detachForgotten();
  expect(await bench.endpoints()).toEqual([]);
  expect(bench.machine.ownLinks).toEqual([]);
});

test.each(["created", "left"])(
  "an endpoint that is %s for two minutes is detached",
  async (phase) => {
    const bench = await benchWithNetwork();
    await bench.createEndpoint("e1");
    if (phase === "left") {
      await bench.join("e1", sandbox);
      await bench.done("Leave", { NetworkID: "n1", EndpointID: "e1" });
    }
    await bench.detachForgotten();
    expect(await bench.endpoints()).toEqual(["e1.json"]);
    bench.nowMs += 3 * minute;
    await bench.detachForgotten();
    expect(await bench.endpoints()).toEqual([]);
  },
);

test("the machine's clock may be set while a container starts", async () => {
  const bench = await benchWithNetwork();
  for (const days of [20_000, -20_000]) {
    await bench.createEndpoint("e1");
    bench.clockMs += days * 86_400_000;
    for (let run = 1; run <= 2; run++) await bench.detachForgotten();
    expect(await bench.endpoints()).toEqual(["e1.json"]);
    bench.nowMs += 3 * minute;
    await bench.detachForgotten();
    expect(await bench.endpoints()).toEqual([]);
  }
});

test("after a restart of the machine everything is detached without a namespace", async () => {
  const bench = await benchWithContainer();
  await bench.stop();
  bench.bootId = "boot-2";
  bench.machine.namespaces.delete(sandbox);
  await bench.start();
  await bench.detachForgotten();
  expect(bench.machine.calls.at(-1)).toBe("DEL e1 in none as eth0");
  expect(await bench.endpoints()).toEqual([]);
});

test("a teardown that fails is tried again after half a minute", async () => {
  const bench = await benchWithContainer();
  bench.machine.namespaces.delete(sandbox);
  bench.machine.delFailures.push("the plugin hangs");
  for (let run = 1; run <= 4; run++) await bench.detachForgotten();
  expect(bench.machine.calls.filter((call) => call.startsWith("DEL"))).toHaveLength(1);
  expect(bench.logger.at("warn")).toContain("could not detach an endpoint");
  bench.nowMs += minute;
  await bench.detachForgotten();
  expect(await bench.endpoints()).toEqual([]);
});

test("a record without an endpoint is detached by what it holds", async () => {
  const bench = await benchWithNetwork();
  bench.records = [{ containerId: "e7", ifName: "eth0" } as AttachmentRecord];
  await bench.detachForgotten();
  expect(bench.machine.calls).toEqual(["DEL e7 in none as eth0"]);
});

test("a staging namespace without an endpoint is removed", async () => {
  const bench = await benchWithNetwork();
  await bench.machine.create("e8");
  await bench.createEndpoint("e1");
  await bench.detachForgotten();
  expect(await bench.machine.names()).toEqual(["e1"]);
});
