import { expect, test } from "vitest";
import { judge } from "./judge.ts";
import type { Sample } from "./sample.ts";

/** A run of 3,000 cycles with noise, and growth of the resident memory per cycle. */
function samples(growthKiB: number): Sample[] {
  return Array.from({ length: 300 }, (_, n) => {
    const noise = (Math.sin(n * 12.9898) * 43758.5453) % 1;
    const anonymousKiB = 60_000 + noise * 4000 + n * 10 * growthKiB;
    return {
      seconds: n,
      cycles: n * 10,
      residentKiB: anonymousKiB + 40_000,
      anonymousKiB,
      descriptors: 22 + (n % 5),
      delayMs: 12 + noise * 3,
    };
  });
}

test("memory that fluctuates around a constant level is steady", () => {
  expect(judge(samples(0)).filter((verdict) => verdict.outcome === "grows")).toEqual([]);
});

test("a leak of 4 KiB in each cycle is detected", () => {
  const growing = judge(samples(4)).filter((verdict) => verdict.outcome === "grows");
  expect(growing.map((verdict) => verdict.quantity)).toEqual(["residentKiB", "anonymousKiB"]);
});

test("a short run gives no verdict on memory, which has not settled", () => {
  const short = judge(samples(40).slice(0, 20));
  const outcomes = Object.fromEntries(short.map((v) => [v.quantity, v.outcome]));
  expect(outcomes).toMatchObject({
    anonymousKiB: "run too short to tell",
    descriptors: "steady",
  });
});

test("a descriptor that leaks once in a hundred cycles is detected", () => {
  const leaking = samples(0).map((s) => ({ ...s, descriptors: 22 + Math.floor(s.cycles / 100) }));
  expect(judge(leaking).find((v) => v.quantity === "descriptors")?.outcome).toBe("grows");
});
