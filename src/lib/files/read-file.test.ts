import { execFileSync } from "node:child_process";
import { mkdir, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { type Links, readTextFile, textIfPresent, textIfUsable } from "./read-file.ts";

const everyLinks: readonly Links[] = ["any", "above", "none"];

/** A directory `dir` with the file `file`, a link to each, and what is no file. */
async function someFiles() {
  const base = await temporaryDirectory();
  const at = (path: string): string => join(base, path);
  await mkdir(at("dir/sub"), { recursive: true });
  await writeFile(at("dir/file"), "ä text");
  await symlink("file", at("dir/link"));
  await symlink("dir", at("other"));
  await writeFile(at("dir/sparse"), "");
  await truncate(at("dir/sparse"), 2 ** 31);
  execFileSync("mkfifo", [at("dir/pipe")]);
  return { at };
}

test.each(everyLinks)("readTextFile() reads a regular file: %s links allowed", async (links) => {
  const files = await someFiles();
  expect(readTextFile(files.at("dir/file"), links)).toBe("ä text");
  for (const path of ["dir/none", "none/file", "dir/file/below"]) {
    expect(textIfPresent(files.at(path), links)).toBeUndefined();
    expect(() => readTextFile(files.at(path), links)).toThrow(files.at(path));
  }
});

test.each<[string, Links, boolean]>([
  ["dir/link", "any", true],
  ["dir/link", "above", false],
  ["dir/link", "none", false],
  ["other/file", "any", true],
  ["other/file", "above", true],
  ["other/file", "none", false],
])("readTextFile() of the link %s with links %s: %s", async (path, links, isRead) => {
  const files = await someFiles();
  if (isRead) return expect(readTextFile(files.at(path), links)).toBe("ä text");
  expect(() => textIfPresent(files.at(path), links)).toThrow(
    /other\/file is a link|dir\/link is a link/,
  );
  expect(textIfUsable(files.at(path), links)).toBeUndefined();
});

test.each([
  ["dir/pipe", /pipe is not a regular file$/],
  ["dir/sub", /sub is not a regular file$/],
  ["dir/sparse", /sparse has more than 16777216 bytes$/],
])("readTextFile() refuses %s at once", async (path, message) => {
  const files = await someFiles();
  for (const links of everyLinks)
    expect(() => readTextFile(files.at(path), links)).toThrow(message);
});
