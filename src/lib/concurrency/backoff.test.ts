import { expect, test } from "vitest";
import { Backoff } from "./backoff.ts";

test("Backoff grows by its factor up to the maximum, and starts over after reset()", () => {
  const backoff = new Backoff({ initialMs: 100, maxMs: 500, random: () => 1 });
  const delays = Array.from({ length: 5000 }, () => backoff.next());
  expect(delays.slice(0, 5)).toEqual([100, 200, 400, 500, 500]);
  expect([delays.at(-1), backoff.attempts]).toEqual([500, 5000]);
  backoff.reset();
  expect(backoff.next()).toBe(100);
});

test("Backoff randomises only its jitter's part of a delay", () => {
  const backoff = new Backoff({ initialMs: 100, maxMs: 100, jitter: 0.4, random: () => 0 });
  expect(backoff.next()).toBe(60);
});
