import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import fs, { appendFileSync, readlinkSync } from "node:fs";
import {
  chmod,
  link,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join, relative } from "node:path";
import { crc32 } from "node:zlib";
import { afterEach, test as base, beforeEach, expect, vi } from "vitest";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import type { TeardownPlan } from "#engine/record/teardown-plan.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { encodeFrame, FrameType } from "#protocol/frame.ts";
import { decodePlan } from "#protocol/plan.ts";
import { FileRecordStore } from "./file-store.ts";
import { formatRecord } from "./record-file.ts";
import { attachment, key, sandbox } from "./testing/sample-record.ts";

let dir: string;

beforeEach(async () => {
  dir = await temporaryDirectory();
});

afterEach(() => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
});

const fileOf = (containerId = "c1"): string => join(dir, `${containerId}@eth0.record`);

function recordOf(containerId: string, ifName = "eth0", note = "first"): AttachmentRecord {
  const conf = { name: "n", plugins: [{ type: "ptp", note, ключ: [1.5, null, true] }] };
  const result = { cniVersion: "1.0.0", ips: [] };
  return {
    ...sandbox,
    ...{ containerId, ifName, bootId: "b1" },
    pod: { namespace: "default", name: "web", uid: "u" },
    attachments: [{ ...attachment, ifName, state: "attached", conf, defaultRoute: [], result }],
  };
}

const emptyPlan: TeardownPlan = { bootId: "b1", attempted: 0, steps: [] };
const call = {
  type: "ptp",
  searchPath: ["/x"],
  env: { CNI_COMMAND: "DEL" },
  stdin: "{}",
  timeoutMs: 60_000,
};
const plan: TeardownPlan = { bootId: "b1", attempted: 1, steps: [{ group: 0, call }] };

/** A store with the record and the plan of c1. */
async function storeWithRecord(): Promise<FileRecordStore> {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  return store;
}

const test = base
  .extend("store", () => FileRecordStore.open(dir))
  .extend("stored", () => storeWithRecord());

const second = recordOf("c1", "eth0", "second");
const third = recordOf("c1", "eth0", "third");

/** The files of the state directory that this process has open, also removed ones. */
async function openFiles(): Promise<string[]> {
  const names = await readdir("/proc/self/fd");
  const links = names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => ""));
  return (await Promise.all(links)).filter((path) => path.startsWith(`${dir}/`));
}

const mode = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8);

test("list() fails if the state directory is gone: its pods may run", async () => {
  const path = join(dir, "state");
  const store = await FileRecordStore.open(path);
  await rm(path, { recursive: true });
  await expect(store.list()).rejects.toThrow("ENOENT");
});

test("ofDocker() reads the records of a Docker driver, if there is one, and creates nothing", async () => {
  const docker = FileRecordStore.ofDocker(dir);
  expect(await docker.list()).toEqual({ records: [], damaged: [] });
  expect(await readdir(dir)).toEqual([]);
  const store = await FileRecordStore.open(join(dir, "docker", "records"));
  await store.create(recordOf("c1"), plan);
  expect((await docker.list()).records).toEqual([recordOf("c1")]);
  await store.finish(recordOf("c1"));
  expect(await docker.list()).toEqual({ records: [], damaged: [] });
});

test("load() returns what create() wrote; finish() leaves an empty tombstone", async () => {
  const store = await FileRecordStore.open(dir);
  expect(await store.load(key)).toBeUndefined();
  await store.create(recordOf("c1"), plan);
  expect(await store.load(key)).toEqual({ record: recordOf("c1"), plan });
  await store.finish(recordOf("c1"));
  expect(await store.load(key)).toBeUndefined();
  expect(await readdir(dir)).toEqual(["c1@eth0.detached"]);
  await store.flush();
  const tombstone = await stat(join(dir, "c1@eth0.detached"));
  expect([tombstone.size, tombstone.mode & 0o777]).toEqual([0, 0o600]);
  await store.finish(recordOf("c1"));
  expect(await store.list()).toEqual({ records: [], damaged: [] });
});

test("hasTombstone() is true after finish(), even without a record, until the next create()", async () => {
  const store = await FileRecordStore.open(dir);
  const other = { ...key, containerId: "c2" };
  expect(await store.hasTombstone(key)).toBe(false);
  await store.create(recordOf("c1"), plan);
  await store.update(second, plan);
  await Promise.all([store.finish(recordOf("c1")), store.finish({ ...recordOf("c1"), ...other })]);
  expect([await store.hasTombstone(key), await store.hasTombstone(other)]).toEqual([true, true]);
  expect(await readdir(dir)).toEqual(["c1@eth0.detached", "c2@eth0.detached"]);
  await store.create(recordOf("c1"), plan);
  expect([await store.hasTombstone(key), await store.hasTombstone(other)]).toEqual([false, true]);
});

test("only the owner can access the state directory and its files, whatever the umask [S-502]", async () => {
  const before = process.umask(0);
  try {
    const store = await FileRecordStore.open(join(dir, "deep", "state"));
    await store.create(recordOf("c1"), plan);
  } finally {
    process.umask(before);
  }
  expect(await mode(join(dir, "deep", "state"))).toBe("700");
  expect(await readdir(join(dir, "deep", "state"))).toEqual(["c1@eth0.record"]);
  expect(await mode(join(dir, "deep", "state", "c1@eth0.record"))).toBe("600");
});

test.each(["eth0.100", "a@b", ".x", "..x", "x.json", "x.record", "veth\\1", "интер", "-f", "@"])(
  "the record of an interface named %s is separate from that of eth0",
  async (ifName) => {
    const store = await FileRecordStore.open(dir);
    await store.create(recordOf("c1", ifName), plan);
    await store.create(recordOf("c1"), emptyPlan);
    const record = recordOf("c1", ifName);
    expect(await store.load({ containerId: "c1", ifName })).toEqual({ record, plan });
    const { records, damaged } = await store.list();
    expect(damaged).toEqual([]);
    expect(new Set(records.map((record) => record.ifName))).toEqual(new Set([ifName, "eth0"]));
  },
);

test("concurrent and repeated writes leave one complete file per sandbox", async ({ store }) => {
  const ids = Array.from({ length: 20 }, (_, i) => `c${i}`);
  await Promise.all(
    ids.map(async (id) => {
      await store.create(recordOf(id), plan);
      await store.update(recordOf(id, "eth0", "again"), plan);
    }),
  );
  const { records, damaged } = await store.list();
  expect(records.map((record) => record.containerId).sort()).toEqual(ids.sort());
  expect(damaged).toEqual([]);
  await store.flush();
  expect(await readdir(dir)).toHaveLength(20);
  const expected = ids.map((id) => recordOf(id, "eth0", "again"));
  expect(new Set((await store.list()).records)).toEqual(new Set(expected));
});

test.each([
  ["altered bytes", (text: string) => text.replace("first", "frist")],
  ["foreign content", () => "not a record\n"],
])("load() and list() report a file with %s as damaged", async (_, alter) => {
  const store = await storeWithRecord();
  await store.flush();
  await writeFile(fileOf(), alter(await readFile(fileOf(), "latin1")), "latin1");
  await expect(store.load(key)).rejects.toThrow(expect.objectContaining({ code: 6 }));
  expect(await store.list()).toEqual({
    records: [],
    damaged: [
      {
        ...key,
        error: expect.objectContaining({ code: 6, message: expect.stringContaining(fileOf()) }),
        plan: undefined,
        isIncomplete: false,
        isUnreadable: false,
        modifiedMs: (await stat(fileOf())).mtimeMs,
        mayContain: expect.any(Function),
      },
    ],
  });
});

test.each<[string, (path: string) => Promise<unknown>]>([
  ["a link", (path) => symlink("/dev/zero", path)],
  ["a link to a record", (path) => symlink(fileOf("c2"), path)],
  ["a FIFO", async (path) => execFileSync("mkfifo", [path])],
  ["a directory", (path) => mkdir(path)],
])("load(), list() and update() read nothing through %s [S-106]", async (_, make) => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c2"), emptyPlan);
  await make(fileOf());
  const message = `cannot read the attachment record ${fileOf()}: it is not a regular file; remove it`;
  await expect(store.load(key)).rejects.toMatchObject({ code: 5, message });
  await expect(store.update(recordOf("c1"), emptyPlan)).rejects.toMatchObject({ code: 5 });
  const { records, damaged } = await store.list();
  expect(records.map(({ containerId }) => containerId)).toEqual(["c2"]);
  expect(damaged).toMatchObject([{ ...key, isIncomplete: false }]);
  // It is no record of a sandbox that could have anything.
  expect(damaged[0]?.mayContain("web")).toBe(false);
  expect(await openFiles()).not.toContain(fileOf());
});

test("list() says which record cannot be read: it may contain anything", async ({ stored }) => {
  await stored.flush();
  vi.spyOn(fs, "readSync").mockImplementation(() => {
    throw new Error("EIO: i/o error, read");
  });
  syncBuiltinESMExports();
  const message = expect.stringContaining(`cannot read the attachment record ${fileOf()}: EIO`);
  const { damaged } = await stored.list();
  expect(damaged).toMatchObject([{ ...key, isUnreadable: true, error: { message } }]);
  expect(damaged[0]?.mayContain("10.0.0.7")).toBe(true);
});

test("a damaged record may contain what is in its file", async ({ stored }) => {
  await stored.flush();
  appendFileSync(fileOf("c2"), "torn 10.0.0.7");
  const [damaged] = (await stored.list()).damaged;
  const texts = ["10.0.0.7", "10.0.0.8"];
  expect(texts.map((text) => damaged?.mayContain(text))).toEqual([true, false]);
  await rm(fileOf("c2"));
  expect(damaged?.mayContain("10.0.0.7")).toBe(false);
});

test("load() does not read a sparse record to its end [S-106]", async ({ store }) => {
  await store.create(recordOf("c1"), emptyPlan);
  await store.flush();
  await truncate(fileOf(), 2_000_000_000);
  const before = process.memoryUsage().rss;
  const other = await FileRecordStore.open(dir);
  expect(await other.load(key)).toMatchObject({ record: { containerId: "c1", bootId: "b1" } });
  expect((await other.list()).records).toHaveLength(1);
  expect(process.memoryUsage().rss - before).toBeLessThan(400 * 2 ** 20);
});

test("load() fails for a plan of a later version, which is not damaged", async ({ store }) => {
  await store.create(recordOf("c1"), emptyPlan);
  await store.flush();
  const later = [
    encodeFrame(FrameType.Plan, ["4", "c1", "eth0", "b2", "1", "new"]),
    encodeFrame(FrameType.Record, ["3", "{}"]),
  ];
  const sum = crc32(Buffer.concat(later)).toString(16).padStart(8, "0");
  appendFileSync(fileOf(), Buffer.concat([...later, encodeFrame(FrameType.PlanEnd, ["0", sum])]));
  const content = await readFile(fileOf());
  const refusal = expect.objectContaining({
    code: 5,
    message: expect.stringMatching(`${fileOf()}, which is kept: plan version "4" is not supported`),
  });
  await expect(store.load(key)).rejects.toThrow(refusal);
  expect((await store.list()).damaged).toMatchObject([{ error: refusal, plan: undefined }]);
  expect(await readFile(fileOf())).toEqual(content);
});

test.each<[string, (path: string) => unknown]>([
  ["removes it", (path) => rm(path)],
  [
    "replaces it with one of the same length and time",
    async (path) => {
      await writeFile(`${path}.new`, formatRecord(recordOf("c1", "eth0", "other"), plan));
      execFileSync("touch", ["-r", path, `${path}.new`]);
      await rename(`${path}.new`, path);
    },
  ],
  [
    "appends to it at the same time",
    (path) => {
      const reference = join(dir, "reference");
      execFileSync("touch", ["-r", path, reference]);
      appendFileSync(path, formatRecord(recordOf("c1", "eth0", "other"), plan));
      execFileSync("touch", ["-r", reference, path]);
    },
  ],
  [
    "writes into it",
    (path) => writeFile(path, formatRecord(recordOf("c1", "eth0", "other"), plan), { flag: "r+" }),
  ],
])("load() reads a file again that is open, if another process %s", async (what, change) => {
  const store = await storeWithRecord();
  await change(fileOf());
  const expected = what === "removes it" ? undefined : recordOf("c1", "eth0", "other");
  expect((await store.load(key))?.record).toEqual(expected);
});

test("list() skips a record that another process removes meanwhile", async ({ store }) => {
  vi.spyOn(fs.promises, "readdir").mockResolvedValueOnce(["c1@eth0.record"] as never);
  syncBuiltinESMExports();
  expect(await store.list()).toEqual({ records: [], damaged: [] });
});

test("list() says of a file with zeros in it that it is incomplete", async ({ stored }) => {
  const { size } = await stat(fileOf());
  await truncate(fileOf(), Math.floor(size / 2));
  await truncate(fileOf(), size + 100);
  expect((await stored.list()).damaged).toMatchObject([{ ...key, isIncomplete: true }]);
});

test.each([0, 1, 100, "the end but one byte"])("a file of %s bytes is incomplete", async (end) => {
  const store = await storeWithRecord();
  const { size } = await stat(fileOf());
  await truncate(fileOf(), typeof end === "number" ? end : size - 1);
  expect((await store.list()).damaged).toMatchObject([{ ...key, isIncomplete: true }]);
});

test("load() rejects a file that holds another sandbox's record and plan", async ({ store }) => {
  await store.create(recordOf("c2"), plan);
  await writeFile(fileOf(), await readFile(fileOf("c2")));
  await expect(store.load(key)).rejects.toThrow(/belongs to interface eth0 of container c2/);
  const { records, damaged } = await store.list();
  expect(records.map((record) => record.containerId)).toEqual(["c2"]);
  expect(damaged).toMatchObject([{ ...key, plan: undefined }]);
});

test("the teardown plan of a damaged record is listed if it is whole", async ({ stored }) => {
  await stored.update({ ...recordOf("c1"), netns: 7 as never }, plan);
  await stored.flush();
  await expect((await FileRecordStore.open(dir)).load(key)).rejects.toMatchObject({ code: 6 });
  expect((await (await FileRecordStore.open(dir)).list()).damaged).toMatchObject([
    { ...key, plan },
  ]);
});

test("list() ignores every file that is not a record", async ({ store }) => {
  await store.create(recordOf("c2"), plan);
  for (const name of [
    "README",
    ".c3@eth0.record.0a.tmp",
    "c4@eth0.record.damaged",
    "c5@eth0.detached",
    "@eth0.record",
    "lock",
  ]) {
    await writeFile(join(dir, name), "x");
  }
  expect(await store.list()).toEqual({ records: [recordOf("c2")], damaged: [] });
});

test("load() finds no record that another process removes just now", async ({ store }) => {
  vi.spyOn(fs, "lstatSync").mockReturnValueOnce({} as never);
  syncBuiltinESMExports();
  expect(await store.load(key)).toBeUndefined();
});

test("many callers of list() at once have each record read twice at most, and see what they have written", async () => {
  const store = await FileRecordStore.open(dir);
  const lists = [store.list()];
  await (await FileRecordStore.open(dir)).create(recordOf("c1"), emptyPlan);
  for (let i = 0; i < 48; i++) lists.push(store.list());
  const [, first, ...others] = await Promise.all(lists);
  expect(first?.records.map(({ containerId }) => containerId)).toEqual(["c1"]);
  for (const { records } of others) expect(records[0]).toBe(first?.records[0]);
});

test("quarantine() renames the file, so that it is kept but neither loaded nor listed", async () => {
  const store = await storeWithRecord();
  await expect(store.quarantine(key)).rejects.toMatchObject({ code: 11 });
  await truncate(fileOf(), 40);
  await store.quarantine(key);
  expect(await readdir(dir)).toEqual(["c1@eth0.record.damaged"]);
  expect(await store.load(key)).toBeUndefined();
  expect(await store.list()).toEqual({ records: [], damaged: [] });
  await store.quarantine(key);
  await store.create(recordOf("c1"), plan);
  expect((await store.load(key))?.record).toEqual(recordOf("c1"));
});

test("list() finds no damage in a record whose sandbox is detached when it is read", async () => {
  await storeWithRecord();
  const store = await FileRecordStore.open(dir);
  const { fstatSync } = fs;
  let looks = 0;
  vi.spyOn(fs, "fstatSync").mockImplementation(((fd: number) => {
    const status = fstatSync(fd);
    looks += 1;
    if (looks === 1) {
      fs.renameSync(fileOf(), `${fileOf()}.away`);
      fs.truncateSync(`${fileOf()}.away`);
    }
    return status;
  }) as typeof fstatSync);
  syncBuiltinESMExports();
  expect(await store.list()).toEqual({ records: [], damaged: [] });
  expect(looks).toBe(1);
});

test("quarantine() fails if it cannot rename the file", async ({ stored }) => {
  await truncate(fileOf(), 40);
  await mkdir(`${fileOf()}.damaged`);
  await expect(stored.quarantine(key)).rejects.toMatchObject({
    code: 5,
    reason: "StateUnwritable",
  });
});

test("create() leaves no file and no open descriptor if it cannot write", async ({ store }) => {
  // The temporary name is too long for a file name.
  const tooLong = recordOf("x".repeat(240));
  const descriptors = async (): Promise<number> => (await readdir("/proc/self/fd")).length;
  const before = await descriptors();
  await expect(store.create(tooLong, plan)).rejects.toThrow(expect.objectContaining({ code: 5 }));
  expect(await readdir(dir)).toEqual([]);
  expect(await descriptors()).toBeLessThanOrEqual(before);
});

test.each(["create", "update"] as const)("%s() that cannot write keeps records", async (method) => {
  const store = await storeWithRecord();
  const long = recordOf("x".repeat(250));
  await expect(store[method](long, plan)).rejects.toThrow(
    expect.objectContaining({ code: 5, message: expect.stringContaining(dir) }),
  );
  expect((await store.load(key))?.record).toEqual(recordOf("c1"));
  expect(await readdir(dir)).toEqual(["c1@eth0.record"]);
});

test("finish() fails with code 5 and keeps the record if it cannot remove it", async () => {
  const store = await storeWithRecord();
  await mkdir(join(dir, "c1@eth0.detached"));
  await expect(store.finish(recordOf("c1"))).rejects.toThrow(
    expect.objectContaining({ code: 5, message: expect.stringContaining("cannot remove") }),
  );
  expect((await store.load(key))?.plan).toEqual(plan);
});

test("finish() does not truncate the target of a link in place of a record or tombstone [S-106]", async () => {
  const store = await FileRecordStore.open(dir);
  const victim = join(dir, "victim");
  await writeFile(victim, "content");
  for (const name of ["c1@eth0.record", "c1@eth0.detached"]) {
    await symlink(victim, join(dir, name));
    await store.finish(recordOf("c1")).catch(() => undefined);
    await store.flush();
    expect(await readFile(victim, "utf8")).toBe("content");
    await rm(join(dir, "c1@eth0.detached"), { force: true });
  }
});

test.each([0o700, 0o755])("a record with mode %o, as of chmod -R, is not marked", async (mode) => {
  const store = await storeWithRecord();
  await chmod(fileOf(), mode);
  expect((await store.load(key))?.record.teardown).toBeUndefined();
});

test("an update that compacts the file keeps the mark of a DEL that begins meanwhile, and leaves no descriptor open", async () => {
  const store = await storeWithRecord();
  await store.flush();
  const { rename: move } = fs.promises;
  vi.spyOn(fs.promises, "rename").mockImplementation(async (from, to) => {
    await chmod(fileOf(), 0o1600);
    await move(from, to);
  });
  syncBuiltinESMExports();
  const note = "x".repeat(40_000);
  for (let i = 0; i < 10; i++) await store.update(recordOf("c1", "eth0", `${note}${i}`), plan);
  await store.flush();
  expect((await stat(fileOf())).mode & 0o7777).toBe(0o1600);
  await expect.poll(openFiles).toEqual([]);
});

test("an update that compacts the file keeps the mark of a DEL that has begun", async ({
  stored,
}) => {
  await chmod(fileOf(), 0o1600);
  const long = { ...recordOf("c1"), listName: "x".repeat(60_000) };
  const inodes = new Set<number>();
  for (let i = 0; i < 12; i++) {
    await stored.update(long, plan);
    inodes.add((await lstat(fileOf())).ino);
  }
  expect(inodes.size).toBeGreaterThan(1);
  expect((await lstat(fileOf())).mode).toBe(0o101600);
});

test("load() and list() report an unfinished teardown for a record that the shim marked, unless it has its own", async () => {
  const store = await storeWithRecord();
  const before = Date.now();
  await chmod(join(dir, "c1@eth0.record"), 0o1600);
  const marked = (await store.load(key))?.record;
  const at = marked?.teardown?.failedAt ?? "";
  expect(Date.parse(at)).toBeGreaterThan(before - 1000);
  expect(marked).toEqual({
    ...recordOf("c1"),
    teardown: {
      firstFailedAt: at,
      failedAt: at,
      attempts: 0,
      lastError: "its DEL has begun and not succeeded",
      reason: "TryAgainLater",
    },
  });
  expect((await store.list()).records).toEqual([marked]);
  const failed = { firstFailedAt: "f", failedAt: "f", attempts: 3, lastError: "busy" };
  await store.update({ ...recordOf("c1"), teardown: failed }, plan);
  expect((await store.load(key))?.record.teardown).toEqual(failed);
  await store.finish(recordOf("c1"));
  await store.create(recordOf("c1"), plan);
  expect((await store.load(key))?.record, "after the next create()").toEqual(recordOf("c1"));
});

/** Lists the files that are synced from now on, as the kernel names them; "." is the directory. */
function observeSyncs(): string[] {
  const synced: string[] = [];
  const { fsync } = fs;
  vi.spyOn(fs, "fsync").mockImplementation((fd, callback) => {
    const path = relative(dir, readlinkSync(`/proc/self/fd/${fd}`)) || ".";
    // Stores of earlier tests may still sync what was updated there.
    if (!path.startsWith("../")) synced.push(path);
    fsync(fd, callback);
  });
  syncBuiltinESMExports();
  return synced;
}

const everything = [".", "c1@eth0.record"];

test("open() syncs the name of a directory that it creates", async () => {
  const synced = observeSyncs();
  await FileRecordStore.open(join(dir, "state"));
  expect(synced).toEqual(["."]);
  await FileRecordStore.open(join(dir, "state"));
  expect(synced).toEqual(["."]);
});

test("problem() tells that no record can be written, and leaves no file if one can be", async () => {
  expect(await (await FileRecordStore.open(dir)).problem()).toBeUndefined();
  expect(await readdir(dir)).toEqual([]);
  const unusable = await FileRecordStore.open("/proc/self/fd");
  expect(await unusable.problem()).toMatch(
    /^the state directory \/proc\/self\/fd cannot be used: E/,
  );
});

test("create() makes the record visible at once, and syncs it before `durable` resolves, without flush()", async () => {
  const store = await FileRecordStore.open(dir);
  const synced = observeSyncs();
  const { durable } = await store.create(recordOf("c1"), plan);
  expect((await (await FileRecordStore.open(dir)).load(key))?.record).toEqual(recordOf("c1"));
  await durable;
  expect(synced.toSorted()).toEqual(everything);
  await store.flush();
  expect(synced).toHaveLength(2);
});

test("create() does not replace a record that another process has written", async ({ store }) => {
  expect(await store.load(key)).toBeUndefined();
  await (await FileRecordStore.open(dir)).create(recordOf("c1"), plan);
  await expect(store.create(recordOf("c1", "eth0", "late"), emptyPlan)).rejects.toMatchObject({
    code: 5,
    message: expect.stringContaining("another process attached the sandbox"),
  });
  expect(await store.load(key)).toEqual({ record: recordOf("c1"), plan });
});

test("create() rejects `durable` with code 5 if the sync fails, which callers may ignore", async () => {
  const store = await FileRecordStore.open(dir);
  vi.spyOn(fs, "fsync").mockImplementation((_, callback) => callback(new Error("EIO")));
  syncBuiltinESMExports();
  const { durable } = await store.create(recordOf("c1"), plan);
  await store.create(recordOf("c2"), plan);
  await expect(durable).rejects.toMatchObject({ code: 5 });
});

test("update() is visible to every process at once, and is synced by the next flush()", async () => {
  const store = await FileRecordStore.open(dir);
  const other = await FileRecordStore.open(dir);
  await (await store.create(recordOf("c1"), plan)).durable;
  const synced = observeSyncs();
  await store.update(second, emptyPlan);
  expect(await other.load(key)).toEqual({ record: second, plan: emptyPlan });
  expect(synced).toEqual([]);
  await Promise.all([store.flush(), store.flush().then(() => expect(synced).toHaveLength(1))]);
  expect(synced).toEqual(["c1@eth0.record"]);
  expect(await readdir(dir)).toEqual(["c1@eth0.record"]);
  expect((await other.load(key))?.record).toEqual(second);
});

test("update() appends to the durable content, even in a process that did not create the file", async () => {
  const store = await storeWithRecord();
  const durable = await readFile(fileOf());
  await store.update(second, emptyPlan);
  const other = await FileRecordStore.open(dir);
  await other.update(third, plan);
  expect((await readFile(fileOf())).subarray(0, durable.length)).toEqual(durable);
  expect((await store.load(key))?.record).toEqual(third);
  await writeFile(fileOf(), durable);
  expect((await store.load(key))?.record).toEqual(recordOf("c1"));
  expect((await store.load(key))?.plan).toEqual(plan);
});

test("load() returns the durable record and its boot, with all of it attempted and a lost update, after a power loss truncated an update at any byte", async () => {
  const store = await FileRecordStore.open(dir);
  const inState = (state: RecordedAttachment["state"]) => ({ ...attachment, state });
  const begun = { ...recordOf("c1"), attachments: [inState("attached"), inState("planned")] };
  await store.create(begun, plan);
  const durable = await readFile(fileOf());
  await store.update(second, emptyPlan);
  const whole = await readFile(fileOf());
  for (let length = durable.length + 1; length < whole.length; length++) {
    await writeFile(fileOf(), whole.subarray(0, length));
    const attachments = [inState("attached"), inState("attempted")];
    expect(await store.load(key), `at ${length}`).toEqual({
      record: { ...begun, attachments, hasLostUpdate: true },
      plan: { ...plan, bootId: "" },
    });
  }
  expect((await store.list()).damaged).toEqual([]);
});

test("update() takes effect after a truncated update", async ({ stored }) => {
  await stored.flush();
  appendFileSync(fileOf(), `\0\0\0\x10\x07cut${"x".repeat(10_000)}`);
  await stored.update(second, emptyPlan);
  expect(await stored.load(key)).toEqual({ record: second, plan: emptyPlan });
});

test("update() leaves the file unchanged if the disk is full, and the next update takes effect", async () => {
  const store = await storeWithRecord();
  const before = await readFile(fileOf());
  const { writeSync } = fs;
  vi.spyOn(fs, "writeSync")
    .mockImplementationOnce(((...args: Parameters<typeof writeSync>) => {
      const [fd, bytes, , , position] = args as unknown as [number, Uint8Array, 0, 0, number];
      return writeSync(fd, bytes, 0, 10, position);
    }) as typeof writeSync)
    .mockImplementationOnce(() => {
      throw new Error("ENOSPC");
    });
  syncBuiltinESMExports();
  await expect(store.update(second, plan)).rejects.toMatchObject({
    code: 5,
  });
  expect(await readFile(fileOf())).toEqual(before);
  await store.update(third, plan);
  expect((await store.load(key))?.record).toEqual(third);
});

test("create() leaves nothing behind if the disk is full", async ({ store }) => {
  vi.spyOn(fs, "writeSync").mockImplementationOnce(() => {
    throw new Error("ENOSPC");
  });
  syncBuiltinESMExports();
  await expect(store.create(recordOf("c1"), plan)).rejects.toMatchObject({ code: 5 });
  expect([await readdir(dir), await openFiles()]).toEqual([[], []]);
});

test("create(), update() and load() continue after the kernel has written or read a part", async () => {
  const [store, other] = [await FileRecordStore.open(dir), await FileRecordStore.open(dir)];
  const { readSync, writeSync } = fs;
  type Buffered = [fd: number, bytes: Uint8Array, offset: number, length: number, at: number];
  vi.spyOn(fs, "writeSync").mockImplementation(((...[fd, bytes, offset, length, at]: Buffered) =>
    writeSync(fd, bytes, offset, Math.min(length, 100), at)) as typeof writeSync);
  vi.spyOn(fs, "readSync").mockImplementation(((...[fd, bytes, offset, length, at]: Buffered) => {
    if (offset + length > bytes.length) throw new RangeError("the buffer is too short");
    return readSync(fd, bytes, offset, Math.min(length, 100), at);
  }) as typeof readSync);
  syncBuiltinESMExports();
  await store.create(recordOf("c1"), plan);
  expect((await other.load(key))?.record).toEqual(recordOf("c1"));
  await store.update(second, plan);
  expect((await other.load(key))?.record).toEqual(second);
});

test("load() ends if the file becomes shorter while it reads", async () => {
  await storeWithRecord();
  vi.spyOn(fs, "readSync").mockReturnValue(0);
  syncBuiltinESMExports();
  const other = await FileRecordStore.open(dir);
  await expect(other.load(key)).rejects.toMatchObject({ code: 6 });
});

test("isLocked() says whether another process holds the sandbox's lock now, whatever the clock says", async () => {
  const store = await FileRecordStore.open(dir);
  const lock = join(dir, "c1.lock");
  expect(await store.isLocked("c1")).toBe(false);
  await writeFile(lock, "");
  expect(await store.isLocked("c1")).toBe(false);
  const holder = spawn("flock", [lock, "-c", "echo locked; read _"]);
  await once(holder.stdout, "data");
  expect(await store.isLocked("c1")).toBe(true);
  const anHourAgo = Date.now() / 1000 - 3600;
  await utimes(lock, anHourAgo, anHourAgo);
  expect(await store.isLocked("c1")).toBe(true);
  holder.stdin.end();
  await once(holder, "exit");
  expect(await store.isLocked("c1")).toBe(false);
});

test("isLocked() does not take calls of other sandboxes for one of this", async ({ store }) => {
  const holder = spawn("flock", ["-s", dir, "-c", "echo locked; read _"]);
  await once(holder.stdout, "data");
  expect(await store.isLocked("c1")).toBe(false);
  holder.stdin.end();
  await once(holder, "exit");
});

test("update() closes the file after a while even if the disk is full", async ({ stored }) => {
  await stored.flush();
  await expect.poll(openFiles).toEqual([]);
  vi.spyOn(fs, "writeSync").mockImplementationOnce(() => {
    throw new Error("ENOSPC");
  });
  syncBuiltinESMExports();
  await expect(stored.update(second, plan)).rejects.toMatchObject({ code: 5 });
  await expect.poll(openFiles, { timeout: 5000 }).toEqual([]);
});

test("update() keeps the file below a size limit over many updates and loses none", async () => {
  const store = await storeWithRecord();
  const note = "x".repeat(40_000);
  for (let i = 0; i < 40; i++) {
    await store.update(recordOf("c1", "eth0", `${note}${i}`), plan);
    expect((await stat(fileOf())).size).toBeLessThan(700_000);
    expect((await store.load(key))?.record).toEqual(recordOf("c1", "eth0", `${note}${i}`));
  }
  await store.flush();
  expect(await readdir(dir)).toEqual(["c1@eth0.record"]);
});

test("update() during a flush() takes effect and is synced by the next flush()", async () => {
  const store = await FileRecordStore.open(dir);
  await (await store.create(recordOf("c1"), plan)).durable;
  const synced = observeSyncs();
  await store.update(second, plan);
  const flushed = store.flush();
  await eventually(() => expect(synced).toHaveLength(1));
  await store.update(third, plan);
  await flushed;
  expect((await store.load(key))?.record).toEqual(third);
  await store.flush();
  expect(synced).toEqual(["c1@eth0.record", "c1@eth0.record"]);
});

test("update() is synced shortly afterwards, even without flush()", async ({ stored }) => {
  const synced = observeSyncs();
  await stored.update(second, plan);
  await eventually(() => expect(synced).toContain("c1@eth0.record"));
});

test("create() closes the file of a record that another process has removed", async () => {
  const [store, other] = [await storeWithRecord(), await FileRecordStore.open(dir)];
  await other.finish(recordOf("c1"));
  await other.flush();
  const { ino } = await stat(join(dir, "c1@eth0.detached"));
  await store.create(second, plan);
  const inodes = async (): Promise<number[]> => {
    const names = await readdir("/proc/self/fd");
    const stats = names.map((name) => stat(`/proc/self/fd/${name}`).catch(() => undefined));
    return (await Promise.all(stats)).map((each) => each?.ino ?? 0);
  };
  await expect.poll(inodes).not.toContain(ino);
});

test("sweep() cleans up the state directory", async ({ stored }) => {
  const temporary = join(dir, ".c9@eth0.record.0a1b.tmp");
  await writeFile(temporary, "");
  await utimes(temporary, 0, 0);
  await stored.sweep();
  expect(await readdir(dir)).toEqual(["c1@eth0.record"]);
});

test("create() closes the file after a while", async () => {
  await storeWithRecord();
  await expect.poll(openFiles, { timeout: 5000 }).toEqual([]);
});

test("flush() and finish() leave no descriptor open", async ({ store }) => {
  const descriptors = async (): Promise<number> => (await readdir("/proc/self/fd")).length;
  const before = await descriptors();
  for (const id of ["c1", "c2", "c3"]) {
    await store.create(recordOf(id), plan);
    await store.update(recordOf(id, "eth0", "second"), plan);
  }
  await (await FileRecordStore.open(dir)).list();
  await store.finish(recordOf("c1"));
  await store.flush();
  await expect.poll(descriptors).toBeLessThanOrEqual(before);
  await expect.poll(openFiles).toEqual([]);
});

test("update() fails and writes nothing if another process finished the record in the meantime", async () => {
  const [stopped, other] = [await FileRecordStore.open(dir), await FileRecordStore.open(dir)];
  await stopped.create(recordOf("c1"), emptyPlan);
  await other.finish(recordOf("c1"));
  await expect(stopped.update(recordOf("c1"), emptyPlan)).rejects.toMatchObject({ code: 5 });
  await stopped.flush();
  expect(await readdir(dir)).toEqual(["c1@eth0.detached"]);
});

test("update() fails if another process has replaced the record", async ({ store }) => {
  await store.create(recordOf("c1"), emptyPlan);
  await writeFile(join(dir, "new"), formatRecord(recordOf("c1", "eth0", "other"), plan));
  await rename(join(dir, "new"), fileOf());
  await expect(store.update(recordOf("c1"), emptyPlan)).rejects.toMatchObject({ code: 5 });
  expect((await store.load(key))?.record).toEqual(recordOf("c1", "eth0", "other"));
});

test.each([
  ["update()", async (store: FileRecordStore) => store.update(second, plan)],
  ["finish()", async (store: FileRecordStore) => store.finish(second)],
])("%s leaves the record of another ADD of the container", async (_, change) => {
  const again = { ...recordOf("c1"), clockMs: sandbox.clockMs + 1 };
  const [stopped, other] = [await FileRecordStore.open(dir), await FileRecordStore.open(dir)];
  await stopped.create(recordOf("c1"), plan);
  await stopped.flush();
  await other.finish(recordOf("c1"));
  await other.create(again, plan);
  await expect(change(stopped)).rejects.toMatchObject({ code: 11 });
  expect(await readdir(dir)).toEqual(["c1@eth0.record"]);
  expect((await stopped.load(key))?.record).toEqual(again);
  await other.update(again, emptyPlan);
  await other.finish(again);
  expect(await readdir(dir)).toEqual(["c1@eth0.detached"]);
});

test("flush() skips an update whose record was finished in the meantime", async ({ stored }) => {
  await stored.update(second, plan);
  await stored.finish(recordOf("c1"));
  await stored.flush();
  expect(await readdir(dir)).toEqual(["c1@eth0.detached"]);
});

test("keepDefaultPlan() writes a file of mode 0600, and only if plan, mode or file type changed", async () => {
  const store = await FileRecordStore.open(dir);
  const path = join(dir, "default.plan");
  const inode = async (): Promise<number> => (await stat(path)).ino;
  await store.keepDefaultPlan([call]);
  expect((await stat(path)).mode & 0o7777).toBe(0o600);
  const first = await inode();
  await store.keepDefaultPlan([call]);
  expect(await inode()).toBe(first);
  await store.keepDefaultPlan([{ ...call, type: "bridge" }]);
  expect(decodePlan(await readFile(path)).plan).toMatchObject({
    ...{ containerId: "", ifName: "" },
    calls: [{ group: 0, type: "bridge" }],
  });
  for (const spoil of [
    () => chmod(path, 0o644),
    () => rename(path, `${path}.other`).then(() => symlink(`${path}.other`, path)),
    () => link(path, `${path}.link`),
  ]) {
    await spoil();
    await store.keepDefaultPlan([{ ...call, type: "bridge" }]);
    expect(await lstat(path)).toMatchObject({ mode: 0o100600, nlink: 1 });
  }
  expect(await store.list()).toEqual({ records: [], damaged: [] });
});

test("requireEngine() keeps the shim from a record until it is finished, whatever is written to it meanwhile", async () => {
  const store = await storeWithRecord();
  const mark = "c1@eth0.engine-only";
  await store.requireEngine(key);
  // So many updates that the file is replaced.
  for (let i = 0; i < 12; i++)
    await store.update(recordOf("c1", "eth0", String(i).repeat(40_000)), plan);
  expect(await readdir(dir)).toContain(mark);
  await store.finish(recordOf("c1"));
  expect(await readdir(dir)).toEqual(["c1@eth0.detached"]);
  // As a crash between the two steps of finish() leaves it.
  await store.requireEngine(key);
  await store.create(recordOf("c1"), plan);
  expect(await readdir(dir)).toEqual(["c1@eth0.record"]);
});
