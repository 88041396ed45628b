import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { installFile } from "./install.ts";

async function scratch(): Promise<{ from: string; to: string; bin: string }> {
  const root = await temporaryDirectory();
  const bin = join(root, "bin");
  await mkdir(bin);
  await writeFile(join(root, "plexus"), "new", { mode: 0o644 });
  return { from: join(root, "plexus"), to: join(bin, "plexus"), bin };
}

test("installFile() installs a file, skips an identical one, and replaces one with another mode", async () => {
  const { from, to, bin } = await scratch();
  expect(await installFile(from, to)).toBe("installed");
  expect(await readFile(to, "utf8")).toBe("new");
  const { ino, mtimeMs, mode } = await stat(to);
  expect(mode & 0o7777).toBe(0o755);
  expect(await installFile(from, to)).toBe("unchanged");
  expect(await stat(to)).toMatchObject({ ino, mtimeMs });
  await chmod(to, 0o777);
  expect(await installFile(from, to)).toBe("installed");
  expect((await stat(to)).mode & 0o7777).toBe(0o755);
  expect(await readdir(bin)).toEqual(["plexus"]);
});

test("installFile() replaces a symlink and keeps its target", async () => {
  const { from, to, bin } = await scratch();
  await writeFile(join(bin, "precious"), "old");
  await symlink("precious", to);
  expect(await installFile(from, to)).toBe("installed");
  expect((await lstat(to)).isSymbolicLink()).toBe(false);
  expect(await readFile(join(bin, "precious"), "utf8")).toBe("old");
});

test("installFile() replaces nothing if the file has to be new", async () => {
  const { from, to, bin } = await scratch();
  await writeFile(to, "of another program");
  await expect(installFile(from, to, { isNew: true })).rejects.toThrow("EEXIST");
  expect(await readFile(to, "utf8")).toBe("of another program");
  await rm(to);
  expect(await installFile(from, to, { isNew: true })).toBe("installed");
  expect((await stat(to)).nlink).toBe(1);
  expect(await readdir(bin)).toEqual(["plexus"]);
});

test("installFile() installs a file that can be executed at once", async () => {
  const wait = 'until [ -e "$0" ]; do :; done; exec "$0"';
  const { to } = await scratch();
  for (let round = 0; round < 20; round += 1) {
    const running = spawn("sh", ["-c", wait, to]);
    const ended = once(running, "exit");
    await installFile("/bin/true", to);
    expect(await ended).toEqual([0, null]);
    await rm(to);
  }
});

test("installFile() replaces an executable that is running", async () => {
  const { from, to } = await scratch();
  await copyFile("/bin/sleep", to);
  const running = spawn(to, ["30"]);
  await once(running, "spawn");
  await expect(writeFile(to, "in place")).rejects.toThrow("ETXTBSY");
  expect(await installFile(from, to)).toBe("installed");
  expect(running.exitCode).toBeNull();
  running.kill();
  await once(running, "exit");
});

test("installFile() removes temporary files of an interrupted run, and keeps the file if it fails", async () => {
  const { from, to, bin } = await scratch();
  const temporary = [".plexus.0123456789ab.tmp", ".other.0123456789ab.tmp"];
  for (const name of temporary) {
    await writeFile(join(bin, name), "half");
    await utimes(join(bin, name), 0, 0);
  }
  const beingWritten = ".plexus.ba9876543210.tmp";
  await writeFile(join(bin, beingWritten), "of an installation at the same time");
  await installFile(from, to);
  await expect(installFile(`${from}.missing`, to)).rejects.toThrow("ENOENT");
  expect((await readdir(bin)).sort()).toEqual([temporary[1], beingWritten, "plexus"]);
});
