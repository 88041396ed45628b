import { expect, test } from "vitest";
import { TimeBudget } from "./time-budget.ts";

function clockAt(start: number): { now: number; readonly read: () => number } {
  const clock = { now: start, read: () => clock.now };
  return clock;
}

test("TimeBudget shares what is left equally among the steps to come", () => {
  const clock = clockAt(500);
  const budget = new TimeBudget(clock.read, 100);
  expect(budget.share(4).remainingMs).toBe(25);
  clock.now += 10;
  expect(budget.share(3).remainingMs).toBe(30);
  expect(budget.share(3, { atLeastMs: 50 }).remainingMs).toBe(50);
});

test("TimeBudget is used up, never less", () => {
  const clock = clockAt(0);
  const budget = new TimeBudget(clock.read, 100);
  const share = budget.share(2);
  clock.now = 60;
  expect([budget.remainingMs, share.remainingMs]).toEqual([40, 0]);
  clock.now = 1000;
  expect([budget.remainingMs, budget.share(2).remainingMs]).toEqual([0, 0]);
});
