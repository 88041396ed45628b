import { readdir, readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import {
  damagedFileName,
  engineOnlyFileName,
  isSocketFileName,
  parseStateFileName,
  primaryConfName,
  recordFileName,
  temporarySocketPath,
  tombstoneFileName,
} from "./state-files.ts";
import { temporaryName } from "./temporary-name.ts";

const keys = [
  { containerId: "c-1", ifName: "eth0" },
  { containerId: "0_a.b-C", ifName: "a@b.json" },
  { containerId: "c.lock", ifName: "x.json.damaged" },
  { containerId: "c", ifName: ".tmp" },
  { containerId: "c", ifName: "x.record" },
];

test.each(keys)("parseStateFileName() reads back the names of $containerId@$ifName", (key) => {
  const kinds = { record: recordFileName(key), tombstone: tombstoneFileName(key) };
  for (const [kind, name] of Object.entries(kinds)) {
    expect(parseStateFileName(name)).toEqual({ kind, ...key });
    expect(parseStateFileName(damagedFileName(name))).toEqual({ kind: "damaged", ...key });
    expect(parseStateFileName(temporaryName(name))).toEqual({ kind: "temporary", of: key });
  }
  expect(parseStateFileName(engineOnlyFileName(key))).toEqual({ kind: "engine-only", ...key });
});

test.each([
  ["c-1@eth0.record", { kind: "record", containerId: "c-1", ifName: "eth0" }],
  ["c-1@eth0.detached", { kind: "tombstone", containerId: "c-1", ifName: "eth0" }],
  [temporaryName(primaryConfName), { kind: "temporary" }],
  ["c-1.lock", { kind: "sandbox-lock", containerId: "c-1" }],
  ["primary-conf", { kind: "primary-conf" }],
  ["definitions.json", { kind: "kept-definitions" }],
])("parseStateFileName(%j) is %j", (name, file) => {
  expect(parseStateFileName(name)).toEqual(file);
});

test.each([
  "",
  "important.txt",
  "important.tmp",
  ".important.0123456789ab.tmp",
  "c-1.record",
  "@eth0.record",
  "c-1@.record",
  "c-1@eth0.json",
  "c-1@eth0.teardown",
  "-c@eth0.record",
  "c-1@eth0.record.tmp",
  "c-1.lock.damaged",
  "primary-conf.damaged",
  ".c-1.lock",
])("parseStateFileName(%j) ignores a foreign file", (name) => {
  expect(parseStateFileName(name)).toBeUndefined();
});

test.each([
  recordFileName({ containerId: "%s", ifName: "%s" }),
  tombstoneFileName({ containerId: "%s", ifName: "%s" }),
  "%s.lock",
])("the shim uses the same file name %j", async (format) => {
  const shim = new URL("../../../shim/", import.meta.url);
  const names = (await readdir(shim)).filter((name) => name.endsWith(".c"));
  const sources = await Promise.all(names.map((name) => readFile(new URL(name, shim), "utf8")));
  expect(sources.some((text) => text.includes(`/${format}"`) || text.includes(`"${format}"`))).toBe(
    true,
  );
});

test("isSocketFileName() accepts only the sockets and their temporary names", () => {
  const own = ["plexus.sock", "admin-plexus.sock", temporarySocketPath("plexus.sock")];
  const others = ["plexus.sock.old", "plexus.sock.", "plexus.sock.0a1b2c3d", "xplexus.sock"];
  const isOwn = (name: string): boolean => isSocketFileName(name, "plexus.sock");
  expect([...own, ...others].filter(isOwn)).toEqual(own);
});
