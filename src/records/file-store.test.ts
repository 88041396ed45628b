import {
  chmod,
  type FileHandle,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { AttachmentRecord } from "#engine/record.ts";
import type { TeardownPlan } from "#engine/teardown-plan.ts";
import { FileRecordStore } from "./file-store.ts";

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "plexus-records-"));
});

afterEach(async () => {
  vi.restoreAllMocks();
  await rm(dir, { recursive: true });
});

const key = { containerId: "c1", ifName: "eth0" };

function recordOf(containerId: string, ifName = "eth0", note = "first"): AttachmentRecord {
  return {
    containerId,
    ifName,
    netns: "/run/netns/x",
    cniVersion: "1.0.0",
    pod: { namespace: "default", name: "web", uid: "u" },
    createdAt: "2026-01-01T00:00:00Z",
    bootId: "b1",
    attachments: [
      {
        displayName: "default/a",
        isDefault: true,
        ifName,
        state: "attached",
        conf: { name: "n", plugins: [{ type: "ptp", note, ключ: [1.5, null, true] }] },
        cniArgs: [["IgnoreUnknown", "1"]],
        capabilityArgs: { ips: ["10.0.0.1"] },
        searchPath: ["/opt/cni/bin"],
        defaultRoute: [],
        result: { cniVersion: "1.0.0", ips: [] },
      },
    ],
  };
}

const emptyPlan: TeardownPlan = { bootId: "b1", attempted: 0, steps: [] };
const plan: TeardownPlan = {
  bootId: "b1",
  attempted: 1,
  steps: [
    {
      group: 0,
      call: {
        type: "ptp",
        searchPath: ["/x"],
        env: { CNI_COMMAND: "DEL" },
        stdin: "{}",
        timeoutMs: 60_000,
      },
    },
  ],
};

const mode = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8);

test("create() and load() give back the record and the plan, and finish() leaves a tombstone of both", async () => {
  const store = await FileRecordStore.open(dir);
  expect([await store.load(key), await store.loadPlan(key)]).toEqual([undefined, undefined]);
  await store.create(recordOf("c1"), plan);
  expect(await store.load(key)).toEqual(recordOf("c1"));
  expect(await store.loadPlan(key)).toEqual(plan);
  await store.finish(key);
  expect([await store.load(key), await store.loadPlan(key)]).toEqual([undefined, undefined]);
  expect(await readdir(dir)).toEqual(["c1@eth0.detached"]);
  const tombstone = await stat(join(dir, "c1@eth0.detached"));
  expect([tombstone.size, tombstone.mode & 0o777]).toEqual([0, 0o600]);
  await store.finish(key);
  expect(await store.list()).toEqual({ records: [], damaged: [] });
});

test("hasTombstone() knows what was finished, recorded or not, until it is created again", async () => {
  const store = await FileRecordStore.open(dir);
  const other = { ...key, containerId: "c2" };
  expect(await store.hasTombstone(key)).toBe(false);
  await store.create(recordOf("c1"), plan);
  await store.update(recordOf("c1", "eth0", "second"), plan);
  await Promise.all([store.finish(key), store.finish(other)]);
  expect([await store.hasTombstone(key), await store.hasTombstone(other)]).toEqual([true, true]);
  expect(await readdir(dir)).toEqual(["c1@eth0.detached", "c2@eth0.detached"]);
  await store.create(recordOf("c1"), plan);
  expect([await store.hasTombstone(key), await store.hasTombstone(other)]).toEqual([false, true]);
});

test.each(["create", "update"] as const)(
  "%s() replaces what was there, and another process sees it",
  async (method) => {
    const store = await FileRecordStore.open(dir);
    await store.create(recordOf("c1"), plan);
    await store[method](recordOf("c1", "eth0", "second"), emptyPlan);
    const other = await FileRecordStore.open(dir);
    expect(await other.load(key)).toEqual(recordOf("c1", "eth0", "second"));
    expect(await other.loadPlan(key)).toEqual(emptyPlan);
  },
);

test("the state directory is the owner's alone, and so is each file, whatever the umask [S-502]", async () => {
  const before = process.umask(0);
  try {
    const store = await FileRecordStore.open(join(dir, "deep", "state"));
    await store.create(recordOf("c1"), plan);
  } finally {
    process.umask(before);
  }
  expect(await mode(join(dir, "deep", "state"))).toBe("700");
  expect(await readdir(join(dir, "deep", "state"))).toEqual(["c1@eth0.json", "c1@eth0.teardown"]);
  expect(await mode(join(dir, "deep", "state", "c1@eth0.json"))).toBe("600");
  expect(await mode(join(dir, "deep", "state", "c1@eth0.teardown"))).toBe("600");
});

test.each(["eth0.100", "a@b", ".x", "..x", "x.json", "x.teardown", "veth\\1", "интер", "-f", "@"])(
  "the interface name %s keeps its own record",
  async (ifName) => {
    const store = await FileRecordStore.open(dir);
    await store.create(recordOf("c1", ifName), plan);
    await store.create(recordOf("c1"), emptyPlan);
    expect(await store.load({ containerId: "c1", ifName })).toEqual(recordOf("c1", ifName));
    expect(await store.loadPlan({ containerId: "c1", ifName })).toEqual(plan);
    const { records, damaged } = await store.list();
    expect(damaged).toEqual([]);
    expect(new Set(records.map((record) => record.ifName))).toEqual(new Set([ifName, "eth0"]));
  },
);

test("writes for different sandboxes at once, and for one repeatedly, leave whole files and nothing else", async () => {
  const store = await FileRecordStore.open(dir);
  const ids = Array.from({ length: 20 }, (_, i) => `c${i}`);
  await Promise.all(
    ids.flatMap((id) => [
      store.create(recordOf(id), plan),
      store.update(recordOf(id, "eth0", "again"), plan),
    ]),
  );
  const { records, damaged } = await store.list();
  expect(records.map((record) => record.containerId).sort()).toEqual(ids.sort());
  expect(damaged).toEqual([]);
  await store.flush();
  expect(await readdir(dir)).toHaveLength(40);
  const expected = ids.map((id) => recordOf(id, "eth0", "again"));
  expect(new Set((await store.list()).records)).toEqual(new Set(expected));
});

test("a record cut short at any byte is damaged", async () => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  const path = join(dir, "c1@eth0.json");
  const whole = await readFile(path);
  for (let length = 0; length < whole.length; length++) {
    await writeFile(path, whole.subarray(0, length));
    await expect(store.load(key), `at ${length}`).rejects.toThrow(
      expect.objectContaining({ code: 6, message: expect.stringContaining(path) }),
    );
  }
});

test.each([
  ["an altered byte", (text: string) => text.replace("first", "frist")],
  ["a newer schema", (text: string) => text.replace('{"schema":2', '{"schema":3')],
  ["bytes after its end", (text: string) => `${text}x`],
  ["another file's content", () => "not a record\n"],
])("a record with %s is damaged", async (_, alter) => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  const path = join(dir, "c1@eth0.json");
  await writeFile(path, alter(await readFile(path, "utf8")));
  await expect(store.load(key)).rejects.toThrow(expect.objectContaining({ code: 6 }));
  expect(await store.list()).toEqual({
    records: [],
    damaged: [{ ...key, reason: expect.stringContaining(path) }],
  });
  expect(await store.loadPlan(key)).toEqual(plan);
});

test("record and plan of another sandbox under a sandbox's name are damaged", async () => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c2"), plan);
  for (const suffix of ["json", "teardown"]) {
    await writeFile(join(dir, `c1@eth0.${suffix}`), await readFile(join(dir, `c2@eth0.${suffix}`)));
  }
  await expect(store.load(key)).rejects.toThrow(/belongs to interface eth0 of container c2/);
  await expect(store.loadPlan(key)).rejects.toThrow(/belongs to interface eth0 of container c2/);
  expect((await store.list()).records.map((record) => record.containerId)).toEqual(["c2"]);
});

test("a plan cut short is damaged, and so is one with an altered byte", async () => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  const path = join(dir, "c1@eth0.teardown");
  const whole = await readFile(path);
  for (const bytes of [whole.subarray(0, -1), whole.subarray(0, 10), Buffer.alloc(0)]) {
    await writeFile(path, bytes);
    const refused = expect.objectContaining({ code: 6, message: expect.stringContaining(path) });
    await expect(store.loadPlan(key)).rejects.toThrow(refused);
  }
});

test("load() and loadPlan() throw code 5 for a file that cannot be read", async () => {
  const store = await FileRecordStore.open(dir);
  await mkdir(join(dir, "c1@eth0.json"));
  await mkdir(join(dir, "c1@eth0.teardown"));
  await expect(store.load(key)).rejects.toThrow(expect.objectContaining({ code: 5 }));
  await expect(store.loadPlan(key)).rejects.toThrow(expect.objectContaining({ code: 5 }));
});

test("list() reports a plan whose record is missing, and no other file", async () => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  await store.create(recordOf("c2"), plan);
  await rm(join(dir, "c1@eth0.json"));
  for (const name of [
    "README",
    ".c3@eth0.json.0a.tmp",
    "c4@eth0.json.damaged",
    "@eth0.json",
    "lock",
  ]) {
    await writeFile(join(dir, name), "x");
  }
  expect(await store.list()).toEqual({
    records: [recordOf("c2")],
    damaged: [{ ...key, reason: expect.stringContaining("c1@eth0.teardown") }],
  });
});

test("hasPod() finds any sandbox of a pod, damaged files or not, and no other pod's", async () => {
  const store = await FileRecordStore.open(dir);
  const web = { namespace: "default", name: "web" };
  expect(await store.hasPod(web)).toBe(false);
  await store.create(recordOf("c1"), plan);
  await store.create(recordOf("c2"), plan);
  await mkdir(join(dir, "c3@eth0.json"));
  expect(await store.hasPod({ uid: "u", ...web } as typeof web)).toBe(true);
  for (const [namespace, name] of [
    ["default", "we"],
    ["default", "web2"],
    ["defaul", "web"],
    ["web", "default"],
  ]) {
    expect(await store.hasPod({ namespace: namespace!, name: name! })).toBe(false);
  }
  await store.finish(key);
  expect(await store.hasPod(web)).toBe(true);
  await store.finish({ ...key, containerId: "c2" });
  expect(await store.hasPod(web)).toBe(false);
});

test("quarantine() puts both files aside, where they are neither loaded nor listed, but kept", async () => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  await store.quarantine(key);
  expect(await readdir(dir)).toEqual(["c1@eth0.json.damaged", "c1@eth0.teardown.damaged"]);
  expect([await store.load(key), await store.loadPlan(key)]).toEqual([undefined, undefined]);
  expect(await store.list()).toEqual({ records: [], damaged: [] });
  await store.quarantine(key);
  await store.create(recordOf("c1"), plan);
  expect(await store.load(key)).toEqual(recordOf("c1"));
});

test("open() does not disturb another process that writes", async () => {
  const store = await FileRecordStore.open(dir);
  const writes = Array.from({ length: 40 }, (_, i) => store.create(recordOf(`c${i}`), plan));
  const opened = Array.from({ length: 40 }, () => FileRecordStore.open(dir));
  await Promise.all([...writes, ...opened]);
  expect((await store.list()).records).toHaveLength(40);
});

test("create() of which one file cannot be written leaves neither, no temporary file and no descriptor", async () => {
  const store = await FileRecordStore.open(dir);
  // The temporary name of the plan is too long for a file name, the one of the record is not.
  const tooLong = recordOf("x".repeat(226));
  const descriptors = async (): Promise<number> => (await readdir("/proc/self/fd")).length;
  const before = await descriptors();
  await expect(store.create(tooLong, plan)).rejects.toThrow(expect.objectContaining({ code: 5 }));
  expect(await readdir(dir)).toEqual([]);
  await expect.poll(descriptors).toBeLessThanOrEqual(before);
});

test.each(["create", "update"] as const)(
  "%s() that fails is code 5 and leaves what was there",
  async (method) => {
    const store = await FileRecordStore.open(dir);
    await store.create(recordOf("c1"), plan);
    const long = recordOf("x".repeat(250));
    await expect(store[method](long, plan)).rejects.toThrow(
      expect.objectContaining({ code: 5, message: expect.stringContaining(dir) }),
    );
    expect(await store.load(key)).toEqual(recordOf("c1"));
    expect(await readdir(dir)).toHaveLength(2);
  },
);

test("finish() that fails is code 5, and the plan stays", async () => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  await mkdir(join(dir, "c1@eth0.teardown.latest"));
  await expect(store.finish(key)).rejects.toThrow(
    expect.objectContaining({ code: 5, message: expect.stringContaining("cannot remove") }),
  );
  await rm(join(dir, "c1@eth0.teardown.latest"), { recursive: true });
  expect(await store.loadPlan(key)).toEqual(plan);
});

test("finish() empties no file that a link in the plan's place leads to [S-106]", async () => {
  const store = await FileRecordStore.open(dir);
  const victim = join(dir, "victim");
  await writeFile(victim, "content");
  for (const name of ["c1@eth0.teardown", "c1@eth0.detached"]) {
    await symlink(victim, join(dir, name));
    await store.finish(key).catch(() => undefined);
    expect(await readFile(victim, "utf8")).toBe("content");
    await rm(join(dir, "c1@eth0.detached"));
  }
});

test("open() of a directory that cannot be made fails", async () => {
  await writeFile(join(dir, "file"), "");
  await chmod(join(dir, "file"), 0o600);
  await expect(FileRecordStore.open(join(dir, "file", "state"))).rejects.toThrow(/ENOTDIR/);
});

/** Lists the files that are synced from now on, as the kernel names them; "." is the directory. */
async function observeSyncs(): Promise<string[]> {
  const probe = await open(dir);
  const prototype = Object.getPrototypeOf(probe) as FileHandle;
  await probe.close();
  const sync = prototype.sync;
  const synced: string[] = [];
  vi.spyOn(prototype, "sync").mockImplementation(async function (this: FileHandle) {
    await sync.call(this);
    synced.push(relative(dir, await readlink(`/proc/self/fd/${this.fd}`)) || ".");
  });
  return synced;
}

const updates = [".", "c1@eth0.json.latest", "c1@eth0.teardown.latest"];
const everything = [".", "c1@eth0.json", "c1@eth0.teardown"];

test("create() has synced record, plan and directory when it resolves, and needs no flush()", async () => {
  const store = await FileRecordStore.open(dir);
  const synced = await observeSyncs();
  await store.create(recordOf("c1"), plan);
  expect(synced.toSorted()).toEqual(everything);
  await store.flush();
  expect(synced).toHaveLength(3);
});

test("create() over existing files is as durable as the first", async () => {
  await (await FileRecordStore.open(dir)).create(recordOf("c1"), plan);
  const store = await FileRecordStore.open(dir);
  await store.update(recordOf("c1"), plan);
  const synced = await observeSyncs();
  await store.create(recordOf("c1"), plan);
  expect(synced.toSorted()).toEqual(everything);
});

test("update() is visible to every process at once, not yet synced, and durable after flush()", async () => {
  const store = await FileRecordStore.open(dir);
  const other = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  const synced = await observeSyncs();
  await store.update(recordOf("c1", "eth0", "second"), emptyPlan);
  expect(await other.load(key)).toEqual(recordOf("c1", "eth0", "second"));
  expect(await other.loadPlan(key)).toEqual(emptyPlan);
  expect(synced).toEqual([]);
  await Promise.all([store.flush(), store.flush().then(() => expect(synced).toHaveLength(3))]);
  expect(synced.toSorted()).toEqual(updates);
  expect(await readdir(dir)).toEqual(["c1@eth0.json", "c1@eth0.teardown"]);
  expect(await other.load(key)).toEqual(recordOf("c1", "eth0", "second"));
});

test("update() leaves the durable files as they are until its own content is durable", async () => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  const names = ["c1@eth0.json", "c1@eth0.teardown"];
  const contents = (): Promise<Buffer[]> =>
    Promise.all(names.map((name) => readFile(join(dir, name))));
  const durable = await contents();
  await store.update(recordOf("c1", "eth0", "second"), emptyPlan);
  expect(await contents()).toEqual(durable);
  for (const name of names) await rm(join(dir, `${name}.latest`));
  expect(await store.load(key)).toEqual(recordOf("c1"));
  expect(await store.loadPlan(key)).toEqual(plan);
});

test.each([
  ["emptied", () => Buffer.alloc(0)],
  ["cut short", (bytes: Buffer) => bytes.subarray(0, -2)],
])(
  "after an update that a power loss has %s, the durable files count, of an unknown boot",
  async (_, damage) => {
    const store = await FileRecordStore.open(dir);
    await store.create(recordOf("c1"), plan);
    await store.update(recordOf("c1", "eth0", "second"), emptyPlan);
    for (const name of ["c1@eth0.json.latest", "c1@eth0.teardown.latest"]) {
      await writeFile(join(dir, name), damage(await readFile(join(dir, name))));
    }
    expect(await store.load(key)).toEqual({ ...recordOf("c1"), bootId: "" });
    expect(await store.loadPlan(key)).toEqual({ ...plan, bootId: "" });
    expect((await store.list()).damaged).toEqual([]);
  },
);

test("an update that is made while the one before is synced is not taken for durable", async () => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  for (let i = 0; i < 20; i++) {
    await store.update(recordOf("c1", "eth0", `a${i}`), plan);
    const flushed = store.flush();
    await store.update(recordOf("c1", "eth0", `b${i}`), plan);
    await flushed;
    expect(await store.load(key)).toEqual(recordOf("c1", "eth0", `b${i}`));
  }
  await store.flush();
  expect(await readdir(dir)).toEqual(["c1@eth0.json", "c1@eth0.teardown"]);
  expect(await store.load(key)).toEqual(recordOf("c1", "eth0", "b19"));
});

test("create() over a plan whose update is left counts alone", async () => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  await store.update(recordOf("c1", "eth0", "second"), emptyPlan);
  await rm(join(dir, "c1@eth0.json.latest"));
  await rm(join(dir, "c1@eth0.json"));
  await store.create(recordOf("c1"), plan);
  expect(await store.loadPlan(key)).toEqual(plan);
});

test("update() becomes durable shortly afterwards without flush()", async () => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  const synced = await observeSyncs();
  await store.update(recordOf("c1", "eth0", "second"), plan);
  await vi.waitFor(() => expect(synced.toSorted()).toEqual(updates), 10_000);
});

test("update() of what another process has finished leaves nothing: this one was stopped for a while", async () => {
  const [stopped, other] = [await FileRecordStore.open(dir), await FileRecordStore.open(dir)];
  await stopped.create(recordOf("c1"), emptyPlan);
  await other.finish(key);
  await expect(stopped.update(recordOf("c1"), emptyPlan)).rejects.toMatchObject({ code: 5 });
  await stopped.flush();
  expect(await readdir(dir)).toEqual(["c1@eth0.detached"]);
});

test("flush() passes over an update whose record was removed meanwhile", async () => {
  const store = await FileRecordStore.open(dir);
  await store.create(recordOf("c1"), plan);
  await store.update(recordOf("c1", "eth0", "second"), plan);
  await store.finish(key);
  await store.flush();
  expect(await readdir(dir)).toEqual(["c1@eth0.detached"]);
});
