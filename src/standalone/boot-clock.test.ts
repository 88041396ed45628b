import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { bootClockMs } from "#lib/boot-clock.ts";
import { openBootClock } from "./boot-clock.ts";

const program = join(import.meta.dirname, "boot-clock.ts");
const bun = join(import.meta.dirname, "../../node_modules/.bin/bun");
const print =
  `import { openBootClock } from ${JSON.stringify(program)}; ` +
  "console.log(openBootClock(process.env.PLEXUS_CLOCK_US)())";

test("a process of Bun, which compiles plexus-standalone, reads the same clock as plexusd", async () => {
  const before = bootClockMs();
  const env = { ...process.env, PLEXUS_CLOCK_US: String(Math.floor(before * 1000)) };
  const { stdout } = await promisify(execFile)(bun, ["-e", print], { env });
  expect(Number(stdout)).toBeGreaterThanOrEqual(Math.floor(before));
  expect(Number(stdout)).toBeLessThanOrEqual(bootClockMs());
});

test.each([undefined, "", "soon", "0"])("openBootClock() rejects the start %j", (startedUs) => {
  expect(() => openBootClock(startedUs)).toThrow(`PLEXUS_CLOCK_US=${startedUs}`);
});
