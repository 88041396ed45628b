import fs, { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { KnownRecords } from "./known-records.ts";

interface Case {
  readonly isKept?: boolean;
  readonly length?: number;
  /** By default, it has a fraction of a second. */
  readonly mtime?: number;
  readonly names?: string[];
  readonly others?: number;
  readonly reads: number;
}

test.each<[string, Case]>([
  ["once while it does not change", { reads: 1 }],
  ["each time if nothing is kept", { isKept: false, reads: 2 }],
  ["once if it has 64 KiB", { length: 65_536, reads: 1 }],
  ["each time if it has more", { length: 65_537, reads: 2 }],
  ["each time if its time has no fraction of a second", { mtime: 1_700_000_000, reads: 2 }],
  ["once if 499 others are read", { others: 499, reads: 1 }],
  ["again if 500 others are read", { others: 500, reads: 2 }],
  ["once if it is still there", { names: ["c1@eth0.record"], reads: 1 }],
  ["again if it was not there meanwhile", { names: ["c2@eth0.record"], reads: 2 }],
])(
  "a file is read %s",
  (_, { isKept = true, length = 10, mtime = 1_700_000_000.5, names, others = 0, reads }) => {
    const dir = mkdtempSync(join(tmpdir(), "plexus-known-"));
    onTestFinished(() => {
      vi.restoreAllMocks();
      syncBuiltinESMExports();
      rmSync(dir, { recursive: true });
    });
    const path = join(dir, "c1@eth0.record");
    writeFileSync(path, "x".repeat(length));
    utimesSync(path, mtime, mtime);
    const opened = vi.spyOn(fs, "openSync");
    syncBuiltinESMExports();
    const known = new KnownRecords({ isKept });
    expect(known.contains(path, "xx")).toBe(true);
    if (names !== undefined) known.forgetOthers(names);
    for (let n = 0; n < others; n++) {
      const other = `${path}.${n}`;
      writeFileSync(other, "x");
      utimesSync(other, mtime, mtime);
      known.contains(other, "x");
    }
    opened.mockClear();
    expect(known.contains(path, "y")).toBe(false);
    expect(opened).toHaveBeenCalledTimes(reads - 1);
  },
);
