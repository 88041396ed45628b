import { expect, test } from "vitest";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { FailingTeardown } from "./failed-teardown.ts";

const failedAt = "2026-01-01T00:00:00Z";

/** A DEL that begins 100 s after the boot of a record that could be given up since second 90. */
function failing(bootId: string): FailingTeardown {
  const missingSince = { bootId, clockMs: 90_000 };
  const teardown = {
    firstFailedAt: failedAt,
    failedAt,
    attempts: 2,
    lastError: "busy",
    missingSince,
  };
  const deps = { clock: () => 100_000, bootId: () => bootId, now: () => failedAt };
  return new FailingTeardown(deps as unknown as EngineDeps, { teardown });
}

test.each([
  ["b1", 10_000],
  ["", 0],
])("in the boot %j, the rest could be given up for %i ms", (bootId, ms) => {
  expect(failing(bootId).noteGivenUp()).toBe(ms);
});

test("failed() counts the attempt, and keeps 1024 characters of its error", () => {
  const teardown = failing("b1").failed({ message: "x".repeat(5000) });
  expect(teardown).toMatchObject({ attempts: 3, lastError: "x".repeat(1024) });
});
