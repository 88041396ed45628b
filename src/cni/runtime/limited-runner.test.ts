import { expect, test } from "vitest";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { TimeBudget } from "#lib/concurrency/time-budget.ts";
import { limitedRunner } from "./limited-runner.ts";

test.each<[leftMs: number, limits: { eachMs?: number }, timeoutMs: number | undefined]>([
  [5000, {}, 900],
  [500.7, {}, 500],
  [5000, { eachMs: 300 }, 300],
  [1.9, {}, 1],
  [0.9, {}, undefined],
  [-1, {}, undefined],
])("limitedRunner(): with %d ms left and %j, it is %s ms", async (leftMs, limits, timeoutMs) => {
  const given: number[] = [];
  const budget = new TimeBudget(() => 0, leftMs);
  const run = limitedRunner(
    async (call) => {
      given.push(call.timeoutMs);
      return { outcome: "exited", code: 0, stdout: "", stderr: "", message: "", elapsedUs: 0 };
    },
    { budget, task: "the DEL", ...limits },
  );
  const outcome = await run({ timeoutMs: 900 } as DelegateCall);
  expect(given).toEqual(timeoutMs === undefined ? [] : [timeoutMs]);
  const message = "not executed: the time for the DEL is used up";
  expect(outcome).toMatchObject(
    timeoutMs === undefined ? { outcome: "failed", message } : { code: 0 },
  );
});
