import { execFileSync } from "node:child_process";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { HostConfFiles } from "./conf-files.ts";

let dir: string;

beforeEach(async () => {
  dir = await temporaryDirectory();
});

test("HostConfFiles lists files and links to files in byte order, without directories", async () => {
  await mkdir(join(dir, "05-dir.conf"));
  for (const name of ["b.conf", "B.conf", "10-x.conflist", "é.conf", ".hidden"])
    await writeFile(join(dir, name), "");
  await symlink(join(dir, "b.conf"), join(dir, "a-link.conf"));
  expect(await new HostConfFiles().list(dir)).toEqual([
    ".hidden",
    "10-x.conflist",
    "B.conf",
    "a-link.conf",
    "b.conf",
    "é.conf",
  ]);
});

test("HostConfFiles lists nothing for a missing directory, and throws on any other failure", async () => {
  const files = new HostConfFiles();
  expect(await files.list(join(dir, "none"))).toEqual([]);
  await writeFile(join(dir, "file"), "");
  expect(await files.list(join(dir, "file", "below"))).toEqual([]);
  await expect(files.list(`${dir}\0`)).rejects.toThrow();
});

test("HostConfFiles follows links to tell files, directories and missing paths apart", async () => {
  await writeFile(join(dir, "file"), "text");
  await symlink(dir, join(dir, "link"));
  await symlink(join(dir, "none"), join(dir, "dangling"));
  const files = new HostConfFiles();
  const kinds = await Promise.all(
    ["file", "link", ".", "dangling", "none", "file/below"].map((name) =>
      files.kind(join(dir, name)),
    ),
  );
  expect(kinds).toEqual(["file", "directory", "directory", "absent", "absent", "absent"]);
  expect(await files.read(join(dir, "file"))).toBe("text");
  await expect(files.read(join(dir, "none"))).rejects.toThrow(/ENOENT/);
});

test("HostConfFiles does not wait for the writer of a named pipe", async () => {
  execFileSync("mkfifo", [join(dir, "pipe.conf")]);
  const reading = new HostConfFiles().read(join(dir, "pipe.conf"));
  await expect(reading).rejects.toThrow("pipe.conf is not a regular file");
});
