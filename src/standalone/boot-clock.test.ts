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

test.each([0, 2000])(
  "a process of Bun, which compiles plexus-standalone, reads the same clock as plexusd, also if it begins %d ms late",
  async (lateMs) => {
    const before = bootClockMs();
    const readings = [before - lateMs, Date.now() - lateMs].map((ms) => Math.floor(ms * 1000));
    const env = { ...process.env, PLEXUS_CLOCK_US: readings.join("/") };
    const { stdout } = await promisify(execFile)(bun, ["-e", print], { env });
    // A date is in whole milliseconds.
    expect(Number(stdout)).toBeGreaterThanOrEqual(Math.floor(before) - 1);
    expect(Number(stdout)).toBeLessThanOrEqual(bootClockMs() + 1);
  },
);

test("the clock of a process that began before the date was set back does not go back", () => {
  const readings = [5_000_000, (Date.now() + 60_000) * 1000].join("/");
  expect(openBootClock(readings)()).toBeGreaterThanOrEqual(5000);
});

test.each([undefined, "", "soon", "0", "1", "1/", "1/0", "0/1"])(
  "openBootClock() rejects the readings %j",
  (readings) => {
    expect(() => openBootClock(readings)).toThrow(`PLEXUS_CLOCK_US=${readings ?? ""}:`);
  },
);
