import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { readdir, readFile, stat, utimes, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { sweepStateDirectory } from "./sweep.ts";

const minuteMs = 60_000;
let dir: string;

beforeEach(async () => {
  dir = await temporaryDirectory();
});

afterEach(() => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
});

/** Makes files of an age. */
async function put(ageMs: number, ...names: string[]): Promise<void> {
  const then = new Date(Date.now() - ageMs);
  for (const name of names) {
    await writeFile(join(dir, name), "");
    await utimes(join(dir, name), then, then);
  }
}

test("sweepStateDirectory() removes temporary files that a crash left, but not recent ones", async () => {
  await put(60 * minuteMs, ".c9@eth0.record.0a1b.tmp", ".default.plan.0a1b.tmp");
  await put(minuteMs, "c8@eth0.record", ".c8@eth0.record.ff.tmp", ".default.plan.0a1c.tmp");
  await sweepStateDirectory(dir);
  const recent = [".c8@eth0.record.ff.tmp", ".default.plan.0a1c.tmp", "c8@eth0.record"];
  expect(await readdir(dir)).toEqual(recent);
});

test("sweepStateDirectory() removes recent temporary files of a detached sandbox, unless an ADD runs", async () => {
  const recorded = [".c1@eth0.record.0a1b.tmp", "c1@eth0.record"];
  await put(0, ...recorded, ".c2@eth0.record.0a1b.tmp", "c2@eth0.detached");
  await put(0, ".c3@eth0.record.0a1b.tmp", "c3.lock", ".c4@eth0.record.0a1b.tmp");
  await put(20 * minuteMs, "c4.lock");
  const holder = spawn("flock", [join(dir, "c4.lock"), "-c", "echo locked; read _"]);
  try {
    await once(holder.stdout, "data");
    await sweepStateDirectory(dir);
    const left = (await readdir(dir)).filter((name) => name.endsWith(".tmp"));
    expect(left).toEqual(["c1", "c3", "c4"].map((id) => `.${id}@eth0.record.0a1b.tmp`));
  } finally {
    holder.stdin.end();
    await once(holder, "exit");
  }
});

test("sweepStateDirectory() removes files dated hours ahead, as after the clock was set back", async () => {
  const hours = -8 * 60 * minuteMs;
  await put(hours, ".c9@eth0.record.0a1b.tmp", "c1@eth0.detached", "c7.lock");
  await put(0, ".c8@eth0.record.ff.tmp", "c8@eth0.record", "c2@eth0.detached");
  await sweepStateDirectory(dir);
  const recent = [".c8@eth0.record.ff.tmp", "c2@eth0.detached", "c8@eth0.record"];
  expect(await readdir(dir)).toEqual(recent);
});

test("sweepStateDirectory() keeps records, the default plan, damaged and foreign files of any age", async () => {
  const kept = [
    "c1@eth0.record",
    "c2@eth0.record.damaged",
    "default.plan",
    "important.tmp",
    "primary-conf",
  ];
  await put(10_000 * minuteMs, ...kept);
  await sweepStateDirectory(dir);
  expect(await readdir(dir)).toEqual(kept);
});

test("sweepStateDirectory() removes marks that a crash left beside no record", async () => {
  await put(60 * minuteMs, "c1@eth0.record", "c1@eth0.engine-only", "c2@eth0.engine-only");
  await put(minuteMs, "c3@eth0.engine-only");
  await sweepStateDirectory(dir);
  expect(await readdir(dir)).toEqual([
    "c1@eth0.engine-only",
    "c1@eth0.record",
    "c3@eth0.engine-only",
  ]);
});

test("sweepStateDirectory() removes tombstones after six hours", async () => {
  await put(5 * 60 * minuteMs, "c1@eth0.detached");
  await put(7 * 60 * minuteMs, "c2@eth0.detached");
  const { mtimeMs } = await stat(join(dir, "c1@eth0.detached"));
  await sweepStateDirectory(dir);
  expect(await readdir(dir)).toEqual(["c1@eth0.detached"]);
  expect(await stat(join(dir, "c1@eth0.detached"))).toMatchObject({ mtimeMs });
});

test("sweepStateDirectory() empties an old tombstone with content, and its six hours start again", async () => {
  await put(7 * 60 * minuteMs, "c1@eth0.detached", "c2@eth0.detached");
  const then = new Date(Date.now() - 7 * 60 * minuteMs);
  await writeFile(join(dir, "c1@eth0.detached"), "content");
  await utimes(join(dir, "c1@eth0.detached"), then, then);
  await sweepStateDirectory(dir);
  expect(await readdir(dir)).toEqual(["c1@eth0.detached"]);
  expect(await readFile(join(dir, "c1@eth0.detached"), "utf8")).toBe("");
});

test("sweepStateDirectory() removes the oldest tombstones above the limit", async () => {
  await put(20 * minuteMs, "a@eth0.detached", "b@eth0.detached");
  await put(minuteMs, "c@eth0.detached", "d@eth0.detached", "e@eth0.detached");
  await sweepStateDirectory(dir, 3);
  expect(await readdir(dir)).toEqual(["c@eth0.detached", "d@eth0.detached", "e@eth0.detached"]);
});

test("sweepStateDirectory() removes an old lock unless it is held or its sandbox has a record", async () => {
  await put(20 * minuteMs, "old.lock", "recorded.lock", "recorded@eth0.record", "held.lock");
  await put(minuteMs, "young.lock");
  const holder = spawn("flock", [join(dir, "held.lock"), "-c", "echo locked; read _"]);
  try {
    await once(holder.stdout, "data");
    await sweepStateDirectory(dir);
    const locks = (await readdir(dir)).filter((name) => name.endsWith(".lock"));
    expect(locks).toEqual(["held.lock", "recorded.lock", "young.lock"]);
  } finally {
    holder.stdin.end();
    await once(holder, "exit");
  }
});

test("sweepStateDirectory() skips a file that another process removes meanwhile", async () => {
  await put(60 * minuteMs, "c9@eth0.engine-only");
  vi.spyOn(fs.promises, "readdir").mockResolvedValueOnce([
    "c8@eth0.detached",
    "c9@eth0.engine-only",
  ] as never);
  syncBuiltinESMExports();
  await sweepStateDirectory(dir);
  expect(await readdir(dir)).toEqual([]);
});

test("sweepStateDirectory() keeps locks if the kernel does not say which are held", async () => {
  await put(60 * minuteMs, "old.lock", "c9@eth0.engine-only");
  vi.spyOn(fs.promises, "readFile").mockRejectedValue(new Error("ENOENT"));
  syncBuiltinESMExports();
  await sweepStateDirectory(dir);
  expect(await readdir(dir)).toEqual(["old.lock"]);
});
