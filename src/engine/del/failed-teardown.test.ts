import { expect, test } from "vitest";
import { failedTeardown, givenUpSince } from "./failed-teardown.ts";

const now = "2026-01-01T00:00:00Z";
const before = { firstFailedAt: "first", failedAt: "last", attempts: 2, lastError: "busy" };

test.each([
  ["b1", "b1", 90_000],
  ["b2", "b1", 100_000],
  ["", "", 100_000],
])("in boot %j, what was missing in boot %j is so since %i ms", (boot, earlier, clockMs) => {
  const deps = { clock: () => 100_000.5, bootId: () => boot };
  const missingSince = { bootId: earlier, clockMs: 90_000 };
  const since = givenUpSince(deps, { teardown: { ...before, missingSince } });
  expect(since).toEqual({ bootId: boot, clockMs });
});

test("failedTeardown() counts the attempt, and keeps 1024 characters of its error", () => {
  const error = { message: "x".repeat(5000) };
  expect(failedTeardown({ now: () => now }, { teardown: before }, error)).toEqual({
    ...{ firstFailedAt: "first", failedAt: now, attempts: 3 },
    lastError: "x".repeat(1024),
  });
});
