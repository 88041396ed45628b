import { execFile } from "node:child_process";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { lockStateDirectory } from "./state-lock.ts";

test("a state directory is locked until the lock is disposed of; another file does not lock", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-docker-"));
  await writeFile(join(dir.path, "lock"), "");
  {
    await using _lock = await lockStateDirectory(dir.path);
    await expect(lockStateDirectory(dir.path)).rejects.toThrow(
      `another process uses ${dir.path}: is plexusctl docker running already?`,
    );
  }
  await using _next = await lockStateDirectory(dir.path);
});

test("the lock of a killed process is free", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-docker-"));
  const script = `require("node:net").createServer().listen(process.argv[1], () => process.kill(process.pid, "SIGKILL"))`;
  const killed = promisify(execFile)(process.execPath, ["-e", script, join(dir.path, "lock")]);
  await expect(killed).rejects.toMatchObject({ signal: "SIGKILL" });
  await using _lock = await lockStateDirectory(dir.path);
});
