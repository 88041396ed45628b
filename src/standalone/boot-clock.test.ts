import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openBootClock } from "./boot-clock.ts";

const program = join(import.meta.dirname, "boot-clock.ts");
const bun = join(import.meta.dirname, "../../node_modules/.bin/bun");
const print = `import { openBootClock } from ${JSON.stringify(program)}; console.log(openBootClock()())`;

/** The kernel's own answer, in milliseconds. */
function uptimeMs(): number {
  return Number.parseFloat(readFileSync("/proc/uptime", "latin1")) * 1000;
}

test("every process reads the same clock, under Bun too, which compiles plexus-standalone", async () => {
  const before = uptimeMs();
  const { stdout } = await promisify(execFile)(bun, ["-e", print]);
  const after = uptimeMs();
  // A busy machine starts a process some time before its own clock begins.
  const toleranceMs = 1000;
  for (const read of [Number(stdout), openBootClock()()]) {
    expect(read).toBeGreaterThan(before - toleranceMs);
    expect(read).toBeLessThan(after + toleranceMs);
  }
});
