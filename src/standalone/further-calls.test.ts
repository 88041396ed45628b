import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { FurtherCalls } from "./further-calls.ts";

let dir: string;

beforeEach(async () => {
  dir = await temporaryDirectory();
});

/** A name for a runtime that runs. */
function running(setting = "1", namespace = statSync("/proc/self/ns/pid").ino): string {
  const start = readFileSync("/proc/self/stat", "utf8").split(") ")[1]?.split(" ")[19];
  return `${namespace}-${process.pid}-${start}-${setting}`;
}

function socket(name = running()): string {
  writeFileSync(join(dir, name), "");
  return join(dir, name);
}

/** As the shim names it to the process that it starts. */
function callsAt(path: string): FurtherCalls {
  return new FurtherCalls(`${statSync(path).ino}:${path}`);
}

/** Milliseconds until it is over. */
async function lifeOf(calls: FurtherCalls, lingerMs: number): Promise<number> {
  const begun = performance.now();
  await calls.whenOver(lingerMs);
  return performance.now() - begun;
}

test("a process waits for further calls for the time after the last one, and removes its socket", async () => {
  const path = socket();
  const calls = callsAt(path);
  void calls.during(sleep(50));
  setTimeout(() => void calls.during(sleep(100)), 200);
  expect(await lifeOf(calls, 250)).toBeGreaterThanOrEqual(545);
  expect(existsSync(path)).toBe(false);
});

test("a process with the time 0 ends with the last call that runs", async () => {
  const calls = callsAt(socket());
  void calls.during(sleep(50));
  void calls.during(sleep(150));
  const ms = await lifeOf(calls, 0);
  expect(ms).toBeGreaterThanOrEqual(145);
  expect(ms).toBeLessThan(1000);
});

test("a call that comes while the socket is removed is served", async () => {
  const path = socket();
  const calls = callsAt(path);
  const served: string[] = [];
  const over = calls.whenOver(0);
  await expect.poll(() => existsSync(path), { interval: 1 }).toBe(false);
  void calls.during(sleep(100).then(() => void served.push("c1")));
  await over;
  expect(served).toEqual(["c1"]);
});

test.each([
  ["was removed", (path: string) => renameSync(path, `${path}.old`)],
  ["is another process's", (path: string) => renameSync(socket("new"), path)],
])("a process whose socket %s ends within a second", async (_, change) => {
  const path = socket();
  const calls = callsAt(path);
  setTimeout(() => change(path), 100);
  expect(await lifeOf(calls, 60_000)).toBeLessThan(3000);
  expect(existsSync(path)).toBe(!existsSync(`${path}.old`));
});

test("a process whose runtime has ended ends", async () => {
  const calls = callsAt(socket(running().replace(`${process.pid}-`, `${process.pid}-9`)));
  expect(await lifeOf(calls, 60_000)).toBeLessThan(1000);
});

test("a process removes the sockets of runtimes that have ended, and nothing else", async () => {
  const { ino } = statSync("/proc/self/ns/pid");
  const others = [running("2"), `${running("3")}.77`, running("4", 1), "my-file", "plain"];
  for (const name of [...others, `${ino}-999999999-1-1`, `${ino}-999999999-1-1.5`]) socket(name);
  mkdirSync(join(dir, `${ino}-999999999-1-2`));
  await lifeOf(callsAt(socket()), 0);
  expect(readdirSync(dir).toSorted()).toEqual([...others, `${ino}-999999999-1-2`].toSorted());
});
