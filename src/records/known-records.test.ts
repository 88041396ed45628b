import fs, { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { KnownRecords } from "./known-records.ts";

test.each<[string, { isKept?: boolean; length?: number; names?: string[]; reads: number }]>([
  ["once while it does not change", { reads: 1 }],
  ["each time if nothing is kept", { isKept: false, reads: 2 }],
  ["each time if it is large", { length: 300_000, reads: 2 }],
  ["once if it is still there", { names: ["c1@eth0.record"], reads: 1 }],
  ["again if it was not there meanwhile", { names: ["c2@eth0.record"], reads: 2 }],
])("a file is read %s", (_, { isKept = true, length = 10, names, reads }) => {
  const dir = mkdtempSync(join(tmpdir(), "plexus-known-"));
  onTestFinished(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
    rmSync(dir, { recursive: true });
  });
  const path = join(dir, "c1@eth0.record");
  writeFileSync(path, "x".repeat(length));
  const opened = vi.spyOn(fs, "openSync");
  syncBuiltinESMExports();
  const known = new KnownRecords({ isKept });
  expect(known.contains(path, "xx")).toBe(true);
  if (names !== undefined) known.forgetOthers(names);
  expect(known.contains(path, "y")).toBe(false);
  expect(opened).toHaveBeenCalledTimes(reads);
});
