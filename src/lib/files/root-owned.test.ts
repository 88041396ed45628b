import { chmod, chown, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { checkRootOwned } from "./root-owned.ts";

let dir: string;

beforeEach(async () => {
  dir = await temporaryDirectory();
  await mkdir(join(dir, "open"));
  await chmod(join(dir, "open"), 0o777);
  for (const name of ["file", "open/file"]) await writeFile(join(dir, name), "");
});

test("checkRootOwned() accepts a file below a sticky directory", () => {
  expect(() => checkRootOwned(join(dir, "file"))).not.toThrow();
});

test.each([
  ["a directory that others can write to", "open", "open"],
  ["a file in one", "open/file", "open"],
  ["a link to one", "link", "open"],
])("checkRootOwned() rejects %s, and names it", async (_, path, culprit) => {
  await symlink(join(dir, "open/file"), join(dir, "link"));
  const message = `${join(dir, culprit)} must belong to root`;
  expect(() => checkRootOwned(join(dir, path))).toThrow(message);
});

test("checkRootOwned() rejects a sticky directory itself", async () => {
  await chmod(join(dir, "open"), 0o1777);
  expect(() => checkRootOwned(join(dir, "open"))).toThrow("must belong to root");
  expect(() => checkRootOwned(join(dir, "open/file"))).not.toThrow();
});

test.runIf(process.geteuid?.() === 0)(
  "checkRootOwned() rejects a file of another user",
  async () => {
    await chown(join(dir, "file"), 1, 1);
    expect(() => checkRootOwned(join(dir, "file"))).toThrow("must belong to root");
  },
);
