import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { atomicWrite } from "./atomic-write.ts";

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "plexus-atomic-"));
});

afterEach(async () => {
  await rm(dir, { recursive: true });
});

test("atomicWrite() writes text and bytes, over what was there, and leaves nothing else", async () => {
  const path = join(dir, "file");
  await atomicWrite(path, "ä long first content");
  expect(await readFile(path, "utf8")).toBe("ä long first content");
  await atomicWrite(path, Buffer.of(0, 255));
  expect(await readFile(path)).toEqual(Buffer.of(0, 255));
  expect(await readdir(dir)).toEqual(["file"]);
});

test("atomicWrite() gives the file its mode whatever the umask, 0600 by default", async () => {
  const before = process.umask(0o077);
  try {
    await atomicWrite(join(dir, "own"), "");
    await atomicWrite(join(dir, "shared"), "", { mode: 0o644 });
  } finally {
    process.umask(before);
  }
  const modes = await Promise.all(
    ["own", "shared"].map(async (name) => (await stat(join(dir, name))).mode & 0o777),
  );
  expect(modes).toEqual([0o600, 0o644]);
});

test("atomicWrite() that cannot rename leaves the old content and no temporary file", async () => {
  const path = join(dir, "target");
  await mkdir(path);
  await writeFile(join(path, "old"), "old content");
  await expect(atomicWrite(path, "new")).rejects.toThrow();
  expect(await readFile(join(path, "old"), "utf8")).toBe("old content");
  expect(await readdir(dir)).toEqual(["target"]);
});

test("atomicWrite() writes all of the new content to a separate file before it replaces the old one", async () => {
  const path = join(dir, "file");
  await atomicWrite(path, "old");
  const content = "x".repeat(8 << 20);
  const writing = atomicWrite(path, content);
  const seen = new Set<string>();
  let done = false;
  void writing.then(() => {
    done = true;
  });
  while (!done) seen.add(await readFile(path, "utf8"));
  expect(
    [...seen].map((text) => text.length).filter((n) => n !== 3 && n !== content.length),
  ).toEqual([]);
  expect(await readFile(path, "utf8")).toHaveLength(content.length);
});

test("atomicWrite() replaces a symlink instead of writing through it", async () => {
  await writeFile(join(dir, "elsewhere"), "untouched");
  await symlink(join(dir, "elsewhere"), join(dir, "link"));
  await atomicWrite(join(dir, "link"), "new");
  expect(await readFile(join(dir, "elsewhere"), "utf8")).toBe("untouched");
  expect(await readFile(join(dir, "link"), "utf8")).toBe("new");
});

test("atomicWrite() at once to one file ends with one of the contents, whole", async () => {
  const path = join(dir, "file");
  const contents = Array.from({ length: 10 }, (_, i) => String(i).repeat(10_000));
  await Promise.all(contents.map((content) => atomicWrite(path, content)));
  expect(contents).toContain(await readFile(path, "utf8"));
  expect(await readdir(dir)).toEqual(["file"]);
});

test("atomicWrite() into a directory that is not there fails", async () => {
  await expect(atomicWrite(join(dir, "none", "file"), "")).rejects.toThrow(/ENOENT/);
});
