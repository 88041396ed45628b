import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CallCounts, Counts } from "../results.ts";

const file = join(import.meta.dirname, "expected.json");

/**
 * By how much a count may differ: bytes with the length of paths, polls and reads with how a plugin prints. The shim
 * looks once or twice whether a plugin has ended, depending on whether it ends or closes its output first.
 */
const tolerances = [
  { pattern: /^bytes/, part: 0.05 },
  { pattern: /^(poll|read)$/, part: 0.5 },
  { pattern: /^waitid$/, part: 1 },
];

export function expectedCounts(): Counts {
  return JSON.parse(readFileSync(file, "utf8")) as Counts;
}

export function writeExpectedCounts(counts: Counts): void {
  writeFileSync(file, `${JSON.stringify(counts, undefined, 2)}\n`);
}

/**
 * What is more or less than expected, a line each: `ADD: waits 3, expected 4`.
 * @param arch system calls have other names elsewhere, so those of other processors are not compared
 */
export function differences(expected: Counts, found: Counts, arch: string = process.arch) {
  return (["ADD", "DEL"] as const).flatMap((command) => {
    const [before, now] = [flat(expected[command], arch), flat(found[command], arch)];
    const names = [...new Set([...Object.keys(before), ...Object.keys(now)])];
    return names
      .filter((name) => differ(name, before[name] ?? 0, now[name] ?? 0))
      .map((name) => `${command}: ${name} ${now[name] ?? 0}, expected ${before[name] ?? 0}`);
  });
}

function flat({ systemCalls, ...rest }: CallCounts, arch: string): Record<string, number> {
  return arch === "x64" ? { ...rest, ...systemCalls } : { ...rest };
}

function differ(name: string, before: number, now: number): boolean {
  const { part = 0 } = tolerances.find(({ pattern }) => pattern.test(name)) ?? {};
  return Math.abs(now - before) > part * before;
}
