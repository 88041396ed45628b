import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import type { EngineLab } from "#engine/testing/engine-lab.ts";
import { exited, failed, halfway } from "#engine/testing/fake-plugins.ts";
import { missing, podLab, web } from "#engine/testing/pod-lab.ts";
import { createLogger } from "./logger.ts";

/** What a logger writes, line by line. */
function logging(): { lines: string[]; logger: ReturnType<typeof createLogger> } {
  const lines: string[] = [];
  return { lines, logger: createLogger("info", { write: (line) => lines.push(line) }) };
}

/** What plexusd writes for what a lab has logged, for a container ID as a runtime gives it. */
function linesOf({ logger: { lines: logged } }: EngineLab): string[] {
  const { lines, logger } = logging();
  for (const { level, fields, message } of logged) {
    logger[level]({ ...fields, containerId: "c".repeat(64) }, message);
  }
  return lines;
}

const words = "failed to set bridge addr: could not add IP address to br-shop: no such device";

test.for<[what: string, prepare: (lab: EngineLab) => void, said: string]>([
  [
    "of a plugin",
    ({ plugins }) => plugins.script("bridge ADD", exited(1, { code: 999, msg: words })),
    words,
  ],
  [
    "in many words",
    ({ plugins }) => plugins.script("bridge ADD", exited(1, { code: 999, msg: "x".repeat(4000) })),
    "xx…",
  ],
  ["of a plugin that is missing", ({ plugins }) => plugins.setLookup("bridge", missing), "bridge"],
  ["of the annotation", ({ source }) => source.removeNad("default/a"), "default/a"],
])("a failed ADD is one line of at most 600 bytes: %s", async ([, prepare, said]) => {
  const lab = podLab("a,b");
  prepare(lab);
  const { json } = await lab.add(web);
  const lines = linesOf(lab);
  expect(lines).toHaveLength(1);
  expect(Buffer.byteLength(lines[0] ?? "")).toBeLessThanOrEqual(600);
  const { err, msg } = JSON.parse(lines[0] ?? "");
  expect([err, msg]).toEqual([
    undefined,
    expect.stringMatching(/^ADD failed: .*(default\/a|net1)/),
  ]);
  expect(msg).toContain(said);
  expect(`${msg}`.slice("ADD failed: ".length, 60)).toBe(`${json.msg}`.slice(0, 48));
});

const refusal = failed(7, "invalid VLAN ID 5000");

test.each([
  { what: "a plugin fails in ADD alone", add: failed(110, "no address left"), del: exited(0) },
  { what: "a plugin refuses its configuration", add: refusal, del: refusal },
  { what: "the default network's does", plugin: "ptp", add: refusal, del: refusal },
  { what: "its rollback fails", add: failed(110, words), del: failed(5, "locked"), linesOfDel: 1 },
])("a failed ADD is one line with its rollback, an idle DEL none: $what", async (row) => {
  const { plugin = "bridge", add, del, linesOfDel = 0 } = row;
  const lab = podLab("a,b");
  lab.plugins.script(`${plugin} ADD`, linesOfDel > 0 ? halfway(lab, add) : add);
  lab.plugins.script(`${plugin} DEL`, del);
  await lab.add(web);
  const lines = linesOf(lab);
  expect(lines).toHaveLength(1);
  expect(Buffer.byteLength(lines[0] ?? "")).toBeLessThanOrEqual(600);
  await lab.del(web);
  expect(linesOf(lab)).toHaveLength(1 + linesOfDel);
});

test("an error has the messages of its causes once, and a stack only if it is a defect", () => {
  const cause = Object.assign(new Error("ENOENT: no such file"), { code: "ENOENT" });
  const expected = new CniError("IoFailure", "cannot read x: ENOENT: no such file", { cause });
  const defect = new CniError("Internal", "x is not a function", {
    cause: new TypeError("x is not a function"),
  });
  const several = new CniError("TeardownIncomplete", "not detached: a; b", {
    cause: new AggregateError([expected, defect]),
  });
  const { lines, logger } = logging();
  for (const err of [expected, cause, defect, several]) logger.warn({ err }, "m");
  expect(lines.map((line) => JSON.parse(line).err)).toEqual([
    { code: 5, message: "cannot read x: ENOENT: no such file" },
    { message: "ENOENT: no such file" },
    { code: 999, message: "x is not a function", stack: expect.stringMatching(/^TypeError.*at /s) },
    { code: 102, message: "not detached: a; b", stack: expect.stringMatching(/^TypeError.*at /s) },
  ]);
});

test("what others wrote does nothing to the terminal of a log's reader [S-309]", () => {
  const { lines, logger } = logging();
  logger.child({ pod: "\u202e" }).warn({ err: new Error("a\u009b2J") }, "m\u2028");
  expect(lines).toEqual([expect.stringMatching(/^[\x20-\x7e]+\n$/)]);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({
    pod: "\u202e",
    err: { message: "a\\u009b2J" },
    msg: "m\u2028",
  });
});
