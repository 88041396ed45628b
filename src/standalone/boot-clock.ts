import { readFileSync } from "node:fs";

/** The kernel counts in hundredths of a second (USER_HZ). */
const msPerTick = 10;

/**
 * The clock of `bootClockMs()` for a process of Bun, whose `process.hrtime` begins with the process:
 * milliseconds since the boot. It also counts the time that a machine is suspended.
 * @throws Error as of node:fs if /proc is missing
 */
export function openBootClock(): () => number {
  const stat = readFileSync("/proc/self/stat", "latin1");
  // proc(5): fields are counted from 1, and the second, in parentheses, can have spaces.
  const fromThird = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const startedAtMs = Number(fromThird[22 - 3]) * msPerTick;
  return () => startedAtMs + performance.now();
}
