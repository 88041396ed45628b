import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { selfTest } from "./self-test.ts";

let parent: string;
let logger: FakeLogger;

beforeEach(async () => {
  parent = await temporaryDirectory();
  logger = new FakeLogger();
});

test("selfTest() serves calls, logs that it passed, and removes its directory", async () => {
  await selfTest({ dir: join(parent, "test"), logger });
  expect(logger.lines).toEqual([
    expect.objectContaining({ level: "debug", message: "the self-test passed" }),
  ]);
  expect(await readdir(parent)).toEqual([]);
});

test("selfTest() replaces what a killed plexusd left in the directory", async () => {
  const dir = join(parent, "test");
  await writeFile(dir, "");
  await selfTest({ dir, logger });
  expect(logger.at("warn")).toEqual([]);
  expect(await readdir(parent)).toEqual([]);
});

test("selfTest() logs a failure", async () => {
  await writeFile(join(parent, "file"), "");
  await selfTest({ dir: join(parent, "file", "test"), logger });
  expect(logger.at("warn")).toEqual(["the self-test failed; the first calls can be slow or fail"]);
});
