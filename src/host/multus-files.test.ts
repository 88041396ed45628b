import { mkdir, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { HostMultusFiles } from "./multus-files.ts";

let dir: string;

beforeEach(async () => {
  dir = await temporaryDirectory();
});

const key = { network: "main", containerId: "c1", ifName: "eth0" };

test("HostMultusFiles finds nothing on a node that never had Multus", async () => {
  for (const files of [new HostMultusFiles(dir), new HostMultusFiles(join(dir, "none"))]) {
    expect(await files.containers()).toEqual([]);
    expect(await files.networks("c1")).toBeUndefined();
    expect(await files.cachedAdd(key)).toBeUndefined();
    expect(await files.cachedAdds("main")).toEqual([]);
  }
});

test("HostMultusFiles reads a container's networks, and prefers Multus's cached results to libcni's", async () => {
  for (const results of ["multus/results", "results"]) {
    await mkdir(join(dir, results), { recursive: true });
    await writeFile(join(dir, results, "main-c1-eth0"), results);
  }
  await writeFile(join(dir, "multus/c1"), "[]");
  const files = new HostMultusFiles(dir);
  expect(await files.containers()).toEqual(["c1"]);
  expect(await files.networks("c1")).toBe("[]");
  expect(await files.cachedAdd(key)).toBe("multus/results");
  await writeFile(join(dir, "results/other-c1-eth0"), "other");
  expect(await files.cachedAdds("main")).toEqual(["results"]);
  await rm(join(dir, "multus/results"), { recursive: true });
  expect(await files.cachedAdd(key)).toBe("results");
});

test("HostMultusFiles lists the interfaces in Multus's own cache of a container in a network", async () => {
  const files = new HostMultusFiles(dir);
  const of = { network: "main", containerId: "c1" };
  expect(await files.cachedInterfaces(of)).toEqual([]);
  for (const results of ["multus/results", "results"]) {
    await mkdir(join(dir, results), { recursive: true });
  }
  for (const name of ["main-c1-eth0", "main-c1-net-1", "main-c12-eth2", "other-c1-eth3"]) {
    await writeFile(join(dir, "multus/results", name), "");
  }
  await writeFile(join(dir, "results/main-c1-eth4"), "");
  expect((await files.cachedInterfaces(of)).toSorted()).toEqual(["eth0", "net-1"]);
});

test("HostMultusFiles says whether libcni has an ADD of a container, unless that is unknown", async () => {
  const files = new HostMultusFiles(dir);
  expect(await files.mayHaveCachedAdd("c1")).toBe(true);
  await mkdir(join(dir, "results"));
  await writeFile(join(dir, "results/cluster-net-c12-eth0"), "");
  expect(await files.mayHaveCachedAdd("c1")).toBe(false);
  await writeFile(join(dir, "results/cluster-net-c1-eth0"), "");
  expect(await files.mayHaveCachedAdd("c1")).toBe(true);
});

test("HostMultusFiles lists, but refuses links, directories and files of more than 16 MiB", async () => {
  await mkdir(join(dir, "multus/results"), { recursive: true });
  await symlink("/etc/passwd", join(dir, "multus/link"));
  await writeFile(join(dir, "multus/long"), "");
  await truncate(join(dir, "multus/long"), 16 * 1024 * 1024 + 1);
  await mkdir(join(dir, "multus/made"));
  const files = new HostMultusFiles(dir);
  expect((await files.containers()).toSorted()).toEqual(["link", "long", "made"]);
  for (const [name, reason] of [
    ["link", /is a link/],
    ["made", /is not a regular file/],
    ["long", /more than 16777216 bytes/],
  ] as const) {
    const error = await files.networks(name).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 6, message: expect.stringMatching(reason) });
  }
});
