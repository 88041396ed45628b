import { dirname } from "node:path";
import { expect, test } from "vitest";
import {
  benchWithContainer,
  benchWithNetwork,
  type DriverBench,
  key,
  sandbox,
  staging,
} from "#docker/testing/driver-bench.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";

const minute = 60_000;

/** dockerd was killed, and its next process has removed the container; its file exists for a minute. */
function unmount({ machine }: DriverBench): void {
  machine.killContainer(sandbox);
}

/** As {@link unmount}, a minute later. */
function removeFile({ machine }: DriverBench): void {
  machine.killContainer(sandbox);
  machine.plainFiles.delete(sandbox);
}

async function run(bench: DriverBench, times: number): Promise<void> {
  for (let time = 1; time <= times; time++) await bench.detachForgotten();
}

test.for<[what: string, stays: boolean, change: (bench: DriverBench) => unknown]>([
  ["of a container that runs for hours", true, (bench) => (bench.nowMs += 180 * minute)],
  [
    "whose namespace is in a directory that the driver cannot see",
    true,
    ({ machine }) => {
      machine.killContainer(sandbox);
      machine.hiddenDirectories.add(dirname(sandbox));
    },
  ],
  ["whose namespace is mounted where the driver cannot see it", true, unmount],
  [
    "whose namespace lost its mount while the container runs",
    true,
    async (bench) => {
      await bench.detachForgotten();
      bench.machine.loseMount(sandbox);
    },
  ],
  [
    "whose namespace lost its mount and file before the driver saw it",
    true,
    ({ machine }) => {
      machine.loseMount(sandbox);
      machine.plainFiles.delete(sandbox);
    },
  ],
  [
    "of a running container that another process recorded with another boot id",
    true,
    async (bench) => {
      await bench.stop();
      bench.bootId = "boot-2";
      await bench.start();
    },
  ],
  [
    "of a running container that another process recorded, where this one sees neither",
    true,
    async (bench) => {
      await bench.stop();
      bench.bootId = "boot-2";
      bench.machine.seesProcesses = false;
      bench.machine.hiddenDirectories.add(dirname(sandbox));
      await bench.start();
    },
  ],
  [
    "whose namespace the driver saw and then was unmounted",
    false,
    (bench) => bench.detachForgotten().then(() => unmount(bench)),
  ],
  [
    "whose namespace the previous process of the driver saw",
    false,
    async (bench) => {
      await bench.detachForgotten();
      await bench.stop();
      unmount(bench);
      await bench.start();
    },
  ],
  [
    "with an unmounted namespace in a directory where the driver sees another one",
    false,
    async (bench) => {
      unmount(bench);
      await bench.createEndpoint("e2");
      await bench.join("e2", `${sandbox}2`);
      bench.machine.startContainer(`${sandbox}2`, "plxe2");
    },
  ],
  [
    "that left a running container while the driver was stopped",
    false,
    async (bench) => {
      bench.machine.stopContainer(sandbox, "plxe1");
      bench.machine.namespaces.set(sandbox, new Map());
      await bench.detachForgotten();
      bench.nowMs += 3 * minute;
    },
  ],
])("an endpoint %s stays: %s", async ([, stays, change]) => {
  const bench = await benchWithContainer();
  await change(bench);
  await run(bench, 3);
  expect((await bench.endpoints()).includes("e1.json")).toBe(stays);
});

test("a hidden directory of namespaces is logged once", async () => {
  const bench = await benchWithContainer();
  bench.machine.hiddenDirectories.add(dirname(sandbox));
  await run(bench, 3);
  const warning =
    "cannot see containers' network namespaces; endpoints that dockerd forgets stay attached";
  expect(bench.logger.at("warn")).toEqual([warning]);
});

test("an endpoint whose container is gone is detached when the second run confirms it", async () => {
  const bench = await benchWithContainer();
  removeFile(bench);
  await run(bench, 1);
  expect(await bench.endpoints()).toEqual(["e1.json"]);
  await run(bench, 1);
  expect(await bench.endpoints()).toEqual([]);
  expect(bench.machine.calls.at(-1)).toBe(`DEL e1 in ${staging} as eth0 with 10.1.0.5/24`);
});

test("a run that begins during the look at new containers still confirms an endpoint", async () => {
  const bench = await benchWithContainer();
  removeFile(bench);
  for (let time = 1; time <= 2; time++) {
    await Promise.all([bench.lookAtNewContainers(), bench.detachForgotten()]);
  }
  expect(await bench.endpoints()).toEqual([]);
});

test.each(["created", "joined", "left"])("an endpoint that stays %s is detached", async (phase) => {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1");
  if (phase !== "created") await bench.join("e1", sandbox);
  if (phase === "left") await bench.done("Leave", key);
  await run(bench, 2);
  expect(await bench.endpoints()).toEqual(["e1.json"]);
  bench.nowMs += 3 * minute;
  await run(bench, 2);
  expect(await bench.endpoints()).toEqual([]);
});

test.each([20_000, -20_000])("a clock that is set by %i days has no effect", async (days) => {
  const bench = await benchWithNetwork();
  await bench.createEndpoint("e1");
  bench.clockMs += days * 86_400_000;
  await run(bench, 2);
  expect(await bench.endpoints()).toEqual(["e1.json"]);
  bench.nowMs += 3 * minute;
  await run(bench, 1);
  expect(await bench.endpoints()).toEqual([]);
});

test("after a reboot every endpoint is detached without a namespace", async () => {
  const bench = await benchWithContainer();
  await bench.stop();
  bench.bootId = "boot-2";
  removeFile(bench);
  await bench.start();
  await run(bench, 1);
  expect(bench.machine.calls.at(-1)).toBe("DEL e1 in none as eth0");
  expect(await bench.endpoints()).toEqual([]);
});

test("a failed detach is retried after half a minute", async () => {
  const bench = await benchWithContainer();
  removeFile(bench);
  bench.machine.delFailures.push("the plugin hangs");
  await run(bench, 4);
  expect(bench.machine.calls.filter((call) => call.startsWith("DEL"))).toHaveLength(1);
  expect(bench.logger.at("warn")).toContain("could not detach an endpoint");
  bench.nowMs += minute;
  await run(bench, 1);
  expect(await bench.endpoints()).toEqual([]);
});

test("a record without an endpoint stays while a process has its interface, or none is seen", async () => {
  const bench = await benchWithContainer();
  const result = { interfaces: [{ name: "eth0", mac: "aa:bb:cc:00:00:01", sandbox: staging }] };
  bench.records = [{ containerId: "e7", ifName: "eth0", attachments: [{ result }] }].map(
    (record) => record as unknown as AttachmentRecord,
  );
  const dels = (): string[] => bench.machine.calls.filter((call) => call.startsWith("DEL e7"));
  await run(bench, 2);
  bench.machine.killContainer(sandbox);
  bench.machine.seesProcesses = false;
  await run(bench, 2);
  expect(dels()).toEqual([]);
  bench.machine.seesProcesses = true;
  await run(bench, 1);
  expect(dels()).toEqual(["DEL e7 in none as eth0"]);
});

test("a record and a staging namespace without an endpoint are removed", async () => {
  const bench = await benchWithNetwork();
  bench.records = [{ containerId: "e7", ifName: "eth0" } as AttachmentRecord];
  await bench.machine.create("e8");
  await bench.createEndpoint("e1");
  await run(bench, 1);
  expect(bench.machine.calls.at(-1)).toBe("DEL e7 in none as eth0");
  expect(await bench.machine.names()).toEqual(["e1"]);
});
