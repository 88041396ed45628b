import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterEach, beforeEach, expect, test } from "vitest";
import { encodeFrame, FrameType } from "#protocol/frame.ts";
import { encodeExec } from "#protocol/messages.ts";
import { FileRecordStore } from "./file-store.ts";
import { attachment, key, sandbox } from "./testing/sample-record.ts";

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "plexus-old-records-"));
});

afterEach(async () => {
  await rm(dir, { recursive: true });
});

const result = { cniVersion: "1.0.0" };
const record = {
  ...sandbox,
  bootId: "b1",
  attachments: [{ ...attachment, state: "attached" as const, result }],
};

/** A record's file as earlier releases wrote it. */
function recordFile(content: object, schema = 2): string {
  const body = JSON.stringify(content);
  const sum = createHash("sha256").update(body).digest("hex");
  return `{"schema":${schema},"sha256":"${sum}","record":${body}}\n`;
}

const call = {
  type: "ptp",
  searchPath: ["/x"],
  timeoutMs: 60_000,
  stdin: "{}",
  env: { CNI_COMMAND: "DEL" },
};

/** A plan's file as earlier releases wrote it, with one step. */
function planFile(head = ["2", "c1", "eth0", "b1", "1"]): Buffer {
  const body = Buffer.concat([
    encodeFrame(FrameType.Plan, head),
    encodeExec({ group: 0, ...call }),
  ]);
  const sum = crc32(body).toString(16).padStart(8, "0");
  return Buffer.concat([body, encodeFrame(FrameType.PlanEnd, ["1", sum])]);
}

const plan = { bootId: "b1", attempted: 1, steps: [{ group: 0, call }] };

async function put(files: Readonly<Record<string, string | Buffer>>): Promise<FileRecordStore> {
  for (const [suffix, content] of Object.entries(files)) {
    await writeFile(join(dir, `c1@eth0.${suffix}`), content, { mode: 0o600 });
  }
  return FileRecordStore.open(dir);
}

test("record and plan of an earlier release are read, listed and finished", async () => {
  const store = await put({ json: recordFile(record), teardown: planFile() });
  expect(await store.load(key)).toEqual(record);
  expect(await store.loadPlan(key)).toEqual(plan);
  expect(await store.list()).toEqual({ records: [record], damaged: [] });
  await store.finish(key);
  expect(await readdir(dir)).toEqual(["c1@eth0.detached"]);
  expect(await readFile(join(dir, "c1@eth0.detached"), "utf8")).toBe("");
  expect(await store.load(key)).toBeUndefined();
});

test("the first schema has neither boot nor progress: everything may have been attempted", async () => {
  const attachments = [{ ...attachment, result }, attachment];
  const first = recordFile({ ...sandbox, attachments }, 1);
  const store = await put({ json: first, teardown: planFile(["1", "c1", "eth0"]) });
  expect(await store.load(key)).toEqual({
    ...sandbox,
    bootId: "",
    attachments: [
      { ...attachment, result, state: "attached" },
      { ...attachment, state: "attempted" },
    ],
  });
  expect(await store.loadPlan(key)).toEqual({ ...plan, bootId: "", attempted: 0 });
});

test("an update that was not durable yet counts, unless it is damaged", async () => {
  const older = { ...record, attachments: [{ ...attachment, state: "planned" as const }] };
  const updated = recordFile(record);
  const store = await put({
    json: recordFile(older),
    "json.latest": updated,
    teardown: planFile(["2", "c1", "eth0", "b1", "0"]),
    "teardown.latest": planFile(),
  });
  expect(await store.load(key)).toEqual(record);
  expect(await store.loadPlan(key)).toEqual(plan);
  await put({ "json.latest": updated.slice(0, -2), "teardown.latest": "" });
  expect(await store.load(key)).toEqual({ ...older, bootId: "" });
  expect(await store.loadPlan(key)).toEqual({ ...plan, bootId: "", attempted: 0 });
  await store.finish(key);
  expect(await readdir(dir)).toEqual(["c1@eth0.detached"]);
});

test("update() puts both into one file, which counts from then on", async () => {
  const store = await put({ json: recordFile(record), teardown: planFile() });
  const teardown = { firstFailedAt: "t", failedAt: "t", attempts: 1, lastError: "busy" };
  await store.update({ ...record, teardown }, { ...plan, attempted: 0 });
  expect(await readdir(dir)).toEqual(["c1@eth0.record"]);
  expect(await store.load(key)).toEqual({ ...record, teardown });
  expect(await store.loadPlan(key)).toEqual({ ...plan, attempted: 0 });
});

test("create() over a plan whose record was lost counts alone", async () => {
  const store = await put({ teardown: planFile(), "teardown.latest": planFile() });
  const reason = expect.stringContaining("c1@eth0.teardown has no attachment record beside it");
  expect((await store.list()).damaged).toEqual([{ ...key, reason }]);
  await store.create(record, { ...plan, steps: [] });
  expect(await store.loadPlan(key)).toEqual({ ...plan, steps: [] });
  expect(await readdir(dir)).toEqual(["c1@eth0.record"]);
});

test("quarantine() puts them aside", async () => {
  const store = await put({ json: "x", teardown: "y", "teardown.latest": "z" });
  await store.quarantine(key);
  expect(await store.list()).toEqual({ records: [], damaged: [] });
  expect(await readdir(dir)).toEqual([
    "c1@eth0.json.damaged",
    "c1@eth0.teardown.damaged",
    "c1@eth0.teardown.latest.damaged",
  ]);
});

test.each([
  ["an altered byte", recordFile(record).replace("ptp", "ptq"), /its checksum does not match/],
  ["bytes after its end", `${recordFile(record)}x`, /cut short/],
  ["a field of the second schema in the first", recordFile(record, 1), /bootId/],
  ["a newer schema", recordFile(record, 3), /it has schema 3, this version reads 1 and 2/],
  ["another owner", recordFile({ ...record, containerId: "c2" }), /container c2/],
])("a record with %s is damaged, and its plan stands by itself", async (_, text, message) => {
  const store = await put({ json: text, teardown: planFile() });
  await expect(store.load(key)).rejects.toThrow(expect.objectContaining({ code: 6 }));
  await expect(store.load(key)).rejects.toThrow(message);
  expect(await store.loadPlan(key)).toEqual(plan);
});
