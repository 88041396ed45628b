import { readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { hostDeviceInfoFiles, sweepDeviceInfo } from "./device-info-files.ts";

const files = hostDeviceInfoFiles;
let dir: string;

beforeEach(async () => {
  dir = await temporaryDirectory();
});

test("read() returns undefined and remove() does nothing if the file is absent", async () => {
  const path = join(dir, "device.json");
  await writeFile(path, "{}");
  expect(await files.read(path)).toBe("{}");
  for (const _time of [1, 2]) await files.remove(path);
  expect(await files.read(path)).toBeUndefined();
  await expect(files.read(dir)).rejects.toThrow(/is not a regular file/);
});

test("copy() creates a world-readable directory, and replaces an earlier copy [D-20] [D-21]", async () => {
  const [from, to] = [join(dir, "dp.json"), join(dir, "cni/plexus-c1@net1.json")];
  expect(await files.copy(from, to)).toBe(false);
  await writeFile(from, "first");
  expect(await files.copy(from, to)).toBe(true);
  await writeFile(from, "second");
  expect(await files.copy(from, to)).toBe(true);
  expect(await files.read(to)).toBe("second");
  const modes = await Promise.all(
    [join(dir, "cni"), to].map(async (path) => (await stat(path)).mode),
  );
  expect(modes.map((mode) => (mode & 0o777).toString(8))).toEqual(["755", "644"]);
});

test("sweepDeviceInfo() removes the files of detached containers, and never those of others [D-20]", async () => {
  const others = ["default-net-c1_net1", "plexus-c2@net1.json"];
  const own = ["plexus-c1@net1.json", ".plexus-c1@net2.json.0123456789ab.tmp"];
  for (const name of [...others, ...own]) await writeFile(join(dir, name), "");
  await sweepDeviceInfo(async () => new Set(["c2"]), dir);
  expect((await readdir(dir)).sort()).toEqual(others);
  await sweepDeviceInfo(async () => new Set(), join(dir, "none"));
});
