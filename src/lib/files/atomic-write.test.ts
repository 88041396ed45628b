import { mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { atomicWrite } from "./atomic-write.ts";
import { nameTarget } from "./temporary-name.ts";

let dir: string;
let path: string;

beforeEach(async () => {
  dir = await temporaryDirectory();
  path = join(dir, "file");
});

test("atomicWrite() replaces a file with text or bytes, and leaves no temporary file", async () => {
  await atomicWrite(path, "ä long first content");
  expect(await readFile(path, "utf8")).toBe("ä long first content");
  await atomicWrite(path, Buffer.of(0, 255));
  expect(await readFile(path)).toEqual(Buffer.of(0, 255));
  expect(await readdir(dir)).toEqual(["file"]);
});

test("atomicWrite() gives the file its mode whatever the umask, 0600 by default", async () => {
  const before = process.umask(0o077);
  onTestFinished(() => void process.umask(before));
  await atomicWrite(join(dir, "own"), "");
  await atomicWrite(join(dir, "shared"), "", { mode: 0o644 });
  expect((await stat(join(dir, "own"))).mode & 0o777).toBe(0o600);
  expect((await stat(join(dir, "shared"))).mode & 0o777).toBe(0o644);
});

test("atomicWrite() keeps the old content and no temporary file if it cannot rename", async () => {
  await mkdir(join(path, "old"), { recursive: true });
  await expect(atomicWrite(path, "new")).rejects.toThrow();
  expect(await readdir(dir, { recursive: true })).toEqual(["file", "file/old"]);
  await expect(atomicWrite(join(dir, "none", "file"), "")).rejects.toThrow(/ENOENT/);
});

test("nameTarget() names the target also in the error of a write, which names no file", () => {
  const message = (text: string) =>
    (nameTarget(new Error(text), "/d/.a.1.tmp", "/d/a") as Error).message;
  expect(message("ENOSPC: no space left on device, write")).toBe(
    "ENOSPC: no space left on device, write '/d/a'",
  );
  expect(message("EROFS: read-only file system, open '/d/.a.1.tmp'")).toBe(
    "EROFS: read-only file system, open '/d/a'",
  );
});

test("atomicWrite() writes all of the new content to a separate file before it replaces the old one", async () => {
  await atomicWrite(path, "old");
  const content = "x".repeat(8 << 20);
  let done = false;
  const writing = atomicWrite(path, content).finally(() => {
    done = true;
  });
  const lengths = new Set<number>();
  while (!done) lengths.add((await readFile(path, "utf8")).length);
  await writing;
  expect([...lengths].filter((length) => length !== 3 && length !== content.length)).toEqual([]);
  expect(await readFile(path, "utf8")).toHaveLength(content.length);
});

test("atomicWrite() replaces a symlink instead of writing through it", async () => {
  await writeFile(join(dir, "elsewhere"), "untouched");
  await symlink(join(dir, "elsewhere"), path);
  await atomicWrite(path, "new");
  expect(await readFile(join(dir, "elsewhere"), "utf8")).toBe("untouched");
  expect(await readFile(path, "utf8")).toBe("new");
});

test("concurrent atomicWrite() calls to one file leave one of the contents, complete", async () => {
  const contents = Array.from({ length: 10 }, (_, i) => String(i).repeat(10_000));
  await Promise.all(contents.map((content) => atomicWrite(path, content)));
  expect(contents).toContain(await readFile(path, "utf8"));
  expect(await readdir(dir)).toEqual(["file"]);
});
