import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { FurtherCalls } from "./further-calls.ts";

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "plexus-further-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
});

/** A name for a runtime that runs. */
function running(setting = "1"): string {
  const start = readFileSync("/proc/self/stat", "utf8").split(") ")[1]?.split(" ")[19];
  return `${process.pid}-${start}-${setting}`;
}

function socket(name = running()): string {
  writeFileSync(join(dir, name), "");
  return join(dir, name);
}

/** Milliseconds until it is over. */
async function lifeOf(calls: FurtherCalls, lingerMs: number): Promise<number> {
  const begun = performance.now();
  await calls.whenOver(() => lingerMs);
  return performance.now() - begun;
}

test("a process waits for further calls for the time after the last one, and removes its socket", async () => {
  const path = socket();
  const calls = new FurtherCalls(path);
  void calls.during(sleep(50));
  setTimeout(() => void calls.during(sleep(100)), 200);
  expect(await lifeOf(calls, 250)).toBeGreaterThanOrEqual(545);
  expect(existsSync(path)).toBe(false);
});

test("a process with the time 0 ends with the last call that runs", async () => {
  const calls = new FurtherCalls(socket());
  void calls.during(sleep(50));
  void calls.during(sleep(150));
  const ms = await lifeOf(calls, 0);
  expect(ms).toBeGreaterThanOrEqual(145);
  expect(ms).toBeLessThan(1000);
});

test("a call that comes while the socket is removed is served", async () => {
  const path = socket();
  const calls = new FurtherCalls(path);
  const served: string[] = [];
  const over = calls.whenOver(() => 0);
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
  const calls = new FurtherCalls(path);
  setTimeout(() => change(path), 100);
  expect(await lifeOf(calls, 60_000)).toBeLessThan(3000);
  expect(existsSync(path)).toBe(!existsSync(`${path}.old`));
});

test("a process whose runtime has ended ends", async () => {
  const calls = new FurtherCalls(socket(running().replace("-", "-9")));
  expect(await lifeOf(calls, 60_000)).toBeLessThan(1000);
});

test("a process removes the sockets of runtimes that have ended", async () => {
  const others = [`${running("2")}`, `${running("3")}.77`];
  for (const name of [...others, "999999999-1-1", "999999999-1-1.5"]) socket(name);
  await lifeOf(new FurtherCalls(socket()), 0);
  expect(readdirSync(dir).toSorted()).toEqual(others);
});
