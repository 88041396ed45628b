import { expect, test } from "vitest";
import { Backoff } from "./backoff.ts";

test("Backoff grows to its maximum, less jitter, and starts over after reset()", () => {
  const backoff = new Backoff({ initialMs: 100, maxMs: 500, random: () => 1 });
  const delays = Array.from({ length: 5000 }, () => backoff.next());
  expect(delays.slice(0, 5)).toEqual([100, 200, 400, 500, 500]);
  expect([delays.at(-1), backoff.attempts]).toEqual([500, 5000]);
  backoff.reset();
  expect(backoff.next()).toBe(100);
  const random = new Backoff({ initialMs: 100, maxMs: 100, jitter: 0.4, random: () => 0 });
  expect(random.next()).toBe(60);
});
