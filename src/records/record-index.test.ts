import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { chmod, mkdir, utimes, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { AttachmentRecord } from "#engine/record/record.ts";
import type { TeardownPlan } from "#engine/record/teardown-plan.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { FileRecordStore } from "./file-store.ts";
import { attachment, sandbox } from "./testing/sample-record.ts";

let dir: string;
/** The store whose index is tested, and that of another process. */
let store: FileRecordStore;
let other: FileRecordStore;

beforeEach(async () => {
  dir = await temporaryDirectory();
  store = await FileRecordStore.open(dir);
  other = await FileRecordStore.open(dir);
});

afterEach(async () => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
  await Promise.all([store.flush(), other.flush()]);
});

const plan: TeardownPlan = { bootId: "b1", attempted: 0, steps: [] };

function recordOf(containerId: string, listName = "first"): AttachmentRecord {
  const attachments = [{ ...attachment, state: "attached" as const }];
  return { ...sandbox, containerId, bootId: "b1", listName, attachments };
}

const fileOf = (containerId: string): string => join(dir, `${containerId}@eth0.record`);
const idsOf = (records: readonly AttachmentRecord[]): string[] =>
  records.map(({ containerId }) => containerId).toSorted();

/** The files of records that are opened from now on. */
function observeOpens(): string[] {
  const opened: string[] = [];
  const { openSync } = fs;
  vi.spyOn(fs, "openSync").mockImplementation((path, ...rest) => {
    if (String(path).endsWith(".record")) opened.push(String(path));
    return openSync(path, ...rest);
  });
  syncBuiltinESMExports();
  return opened;
}

/** Sets the time of a file's content, in seconds. */
const setTime = (path: string, seconds: number) => utimes(path, seconds, seconds);

test.each<[string, (path: string) => unknown, number]>([
  ["not read again while it does not change", () => undefined, 0],
  ["read again after an update", () => other.update(recordOf("c1", "second"), plan), 1],
  ["read again if another one has its length", (path) => setTime(path, 1_700_000_001.5), 1],
  ["read again if only its ctime has changed", (path) => chmod(path, 0o600), 1],
])("a listed record is %s", async (_, change, reads) => {
  for (const id of ["c1", "c2"]) await other.create(recordOf(id), plan);
  await other.flush();
  for (const id of ["c1", "c2"]) await setTime(fileOf(id), 1_700_000_000.5);
  const { records } = await store.list();
  // Later than the resolution of the file system's times.
  await sleep(20);
  await change(fileOf("c1"));
  await other.flush();
  const opened = observeOpens();
  const again = (await store.list()).records;
  expect(opened).toEqual(Array.from({ length: reads }, () => fileOf("c1")));
  expect(again.find(({ containerId }) => containerId === "c2")).toBe(
    records.find(({ containerId }) => containerId === "c2"),
  );
  expect(await other.list()).toEqual({ records: again, damaged: [] });
});

test("a record is read each time if its time has no fraction of a second: another one can have the same", async () => {
  await other.create(recordOf("c1"), plan);
  await other.flush();
  await setTime(fileOf("c1"), 1_700_000_000);
  await store.list();
  const opened = observeOpens();
  for (const _ of [1, 2]) expect(idsOf((await store.list()).records)).toEqual(["c1"]);
  expect(opened).toHaveLength(2);
});

test("list() sees what other processes have created, marked and removed since", async () => {
  await store.create(recordOf("c1"), plan);
  await store.list();
  await other.create(recordOf("c2"), plan);
  expect(idsOf((await store.list()).records)).toEqual(["c1", "c2"]);
  await chmod(fileOf("c2"), 0o1600);
  const marked = (await store.list()).records.find(({ containerId }) => containerId === "c2");
  expect(marked?.teardown?.reason).toBe("TryAgainLater");
  await other.finish(recordOf("c1"));
  expect(idsOf((await store.list()).records)).toEqual(["c2"]);
  await other.create({ ...recordOf("c1"), clockMs: 7 }, plan);
  expect((await store.list()).records).toContainEqual({ ...recordOf("c1"), clockMs: 7 });
});

test("list() reads a damaged record each time, and forgets what it had read before", async () => {
  await store.create(recordOf("c1"), plan);
  await store.flush();
  await store.list();
  await chmod(fileOf("c1"), 0o600);
  execFileSync("truncate", ["-s", "40", fileOf("c1")]);
  for (const _ of [1, 2]) {
    expect(await store.list()).toMatchObject({ records: [], damaged: [{ containerId: "c1" }] });
    expect(await store.known("first")).toEqual([]);
  }
});

test("known() has, before the first list, the records with a text: others are opened once", async () => {
  for (const id of ["c1", "c2"]) await other.create(recordOf(id, `list of ${id}`), plan);
  await other.create(recordOf("c3"), plan);
  await writeFile(fileOf("c4"), "list of c1");
  await writeFile(join(dir, "c1@eth0.detached"), "list of c1");
  await mkdir(fileOf("c9"));
  const opened = observeOpens();
  expect(idsOf(await store.known("list of c1"))).toEqual(["c1"]);
  expect(opened.filter((path) => path !== fileOf("c1") && path !== fileOf("c4"))).toEqual(
    ["c2", "c3", "c9"].map(fileOf),
  );
});

test("known() has the records of the last list, and what this process has changed since, and opens no file", async () => {
  await other.create(recordOf("c1"), plan);
  expect(idsOf((await store.list()).records)).toEqual(["c1"]);
  const opened = observeOpens();
  await other.create(recordOf("c2"), plan);
  await other.flush();
  await store.finish(recordOf("c1"));
  opened.length = 0;
  expect(await store.known("first")).toEqual([]);
  expect(opened).toEqual([]);
  expect(idsOf((await store.list()).records)).toEqual(["c2"]);
  await store.create(recordOf("c3"), plan);
  expect(idsOf(await store.known("first"))).toEqual(["c2", "c3"]);
});

test("known() fails if the records cannot be listed, and lists them again next time", async () => {
  await other.create(recordOf("c1"), plan);
  vi.spyOn(fs.promises, "readdir").mockRejectedValueOnce(new Error("EMFILE"));
  syncBuiltinESMExports();
  await store.create(recordOf("c2"), plan);
  await expect(store.known("first")).rejects.toThrow("EMFILE");
  expect(idsOf(await store.known("first"))).toEqual(["c1", "c2"]);
});

test("known() has records that are created, and not those that are finished, while all are listed", async () => {
  const old = Array.from({ length: 40 }, (_, i) => `old-${i}`);
  for (const id of old) await other.create(recordOf(id), plan);
  let isRead = false;
  const reading = store.list().finally(() => {
    isRead = true;
  });
  const expected = new Set(old);
  for (let n = 0; !isRead; n++) {
    const id = `new-${n}`;
    await store.create(recordOf(id), plan);
    expected.add(id);
    const finished = old[n] ?? `new-${n - old.length}`;
    await store.finish(recordOf(finished));
    expected.delete(finished);
    await new Promise(setImmediate);
  }
  await reading;
  expect(idsOf(await store.known("first"))).toEqual([...expected].toSorted());
});
