import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { IpCommand } from "./ip-command.ts";

test("hasProcess() finds this process's namespace", async () => {
  const namespaces = new IpCommand({ pid: process.pid, owner: "test" });
  expect(await namespaces.hasProcess("/proc/self/ns/net")).toBe(true);
  expect(await namespaces.hasProcess("/proc/self/ns/uts")).toBe(false);
});

test("find() distinguishes a namespace, another file, a missing file and a missing directory", async () => {
  const dir = await temporaryDirectory();
  const file = join(dir, "file");
  await writeFile(file, "");
  const namespaces = new IpCommand({ pid: process.pid, owner: dir });
  const find = (path: string): Promise<string> => namespaces.find(path);
  expect(await find("/proc/self/ns/net")).toBe("namespace");
  expect(await find(file)).toBe("other");
  expect(await find(join(dir, "gone"))).toBe("nothing");
  expect(await find(join(dir, "gone/gone"))).toBe("hidden");
  expect(await find(join(file, "gone"))).toBe("hidden");
});
