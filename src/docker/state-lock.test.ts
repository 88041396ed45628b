import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { lockStateDirectory } from "./state-lock.ts";

test("a state directory is locked until the lock is disposed of; another file does not lock", async () => {
  const dir = await temporaryDirectory();
  await writeFile(join(dir, "lock"), "");
  {
    await using _lock = await lockStateDirectory(dir);
    await expect(lockStateDirectory(dir)).rejects.toThrow(
      `another process uses ${dir}: is plexusctl docker running already?`,
    );
  }
  await using _next = await lockStateDirectory(dir);
});

test("the lock of a killed process is free", async () => {
  const dir = await temporaryDirectory();
  const script = `require("node:net").createServer().listen(process.argv[1], () => process.kill(process.pid, "SIGKILL"))`;
  const killed = promisify(execFile)(process.execPath, ["-e", script, join(dir, "lock")]);
  await expect(killed).rejects.toMatchObject({ signal: "SIGKILL" });
  await using _lock = await lockStateDirectory(dir);
});
