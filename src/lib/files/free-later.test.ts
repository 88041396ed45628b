import { mkdtemp, readFile, rm, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freeLater } from "./free-later.ts";

let dir: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "free-later-"));
});

afterAll(() => rm(dir, { recursive: true, force: true }));

test("freeLater() resolves with what the step gives, and the step's effect is there", async () => {
  const path = join(dir, "a");
  await writeFile(path, "old");
  expect(await freeLater(path, () => unlink(path).then(() => 7))).toBe(7);
  await expect(readFile(path)).rejects.toThrow("ENOENT");
});

test("freeLater() needs no file, and passes the step's failure on", async () => {
  const path = join(dir, "none");
  expect(await freeLater(path, async () => "done")).toBe("done");
  await expect(freeLater(path, () => unlink(path))).rejects.toThrow("ENOENT");
});
