import { expect, test } from "vitest";
import { Backoff } from "./backoff.ts";

test("Backoff grows by its factor up to the maximum", () => {
  const backoff = new Backoff({ initialMs: 100, maxMs: 500, random: () => 1 });
  expect([backoff.next(), backoff.next(), backoff.next(), backoff.next()]).toEqual([
    100, 200, 400, 500,
  ]);
  expect(backoff.attempts).toBe(4);
});

test("Backoff starts over after reset()", () => {
  const backoff = new Backoff({ initialMs: 100, maxMs: 500, random: () => 1 });
  backoff.next();
  backoff.next();
  backoff.reset();
  expect(backoff.next()).toBe(100);
});

test("Backoff randomises only its jitter's part of a delay", () => {
  const backoff = new Backoff({ initialMs: 100, maxMs: 100, jitter: 0.4, random: () => 0 });
  expect(backoff.next()).toBe(60);
});

test("Backoff stays finite after very many attempts", () => {
  const backoff = new Backoff({ initialMs: 100, maxMs: 500, random: () => 1 });
  for (let i = 0; i < 5000; i++) backoff.next();
  expect(backoff.next()).toBe(500);
});
