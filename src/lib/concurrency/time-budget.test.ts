import { expect, test } from "vitest";
import { TimeBudget } from "./time-budget.ts";

test("TimeBudget divides the remaining time equally among the remaining steps, never below zero", () => {
  let now = 500;
  const budget = new TimeBudget(() => now, 100);
  const share = budget.share(4);
  expect(share.remainingMs).toBe(25);
  now += 40;
  expect([budget.remainingMs, share.remainingMs]).toEqual([60, 0]);
  expect(budget.share(3).remainingMs).toBe(20);
  now += 1000;
  expect([budget.remainingMs, budget.share(2).remainingMs]).toEqual([0, 0]);
});
