import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { Housekeeping, type HousekeepingTask } from "./housekeeping.ts";

const logger = new FakeLogger();

function started(...tasks: HousekeepingTask[]): Housekeeping {
  const housekeeping = new Housekeeping(tasks, logger);
  onTestFinished(() => housekeeping.stop());
  return housekeeping;
}

test("Housekeeping runs a task at the start, when it is due, and on runNow()", async () => {
  const due = vi.fn(async () => undefined);
  const asked = vi.fn(async () => undefined);
  const housekeeping = started(
    { name: "due", everyMs: 5, run: due },
    { name: "asked", everyMs: 3_600_000, run: asked },
  );
  await eventually(() => expect(due.mock.calls.length).toBeGreaterThan(2));
  expect(asked).toHaveBeenCalledTimes(1);
  housekeeping.runNow();
  await eventually(() => expect(asked).toHaveBeenCalledTimes(2));
});

test("a task's runs never overlap, and stop() waits for the one that is running", async () => {
  let running = 0;
  let most = 0;
  const run = async (): Promise<void> => {
    most = Math.max(most, ++running);
    await pause(10);
    running -= 1;
  };
  const housekeeping = started({ name: "slow", everyMs: 1, run });
  housekeeping.runNow();
  await pause(30);
  await housekeeping.stop();
  expect({ running, most }).toEqual({ running: 0, most: 1 });
});

test("a failing task is retried, and its error is logged only when it changes", async () => {
  const run = vi.fn(async () => {
    throw new Error(run.mock.calls.length < 4 ? "disk full" : "read-only");
  });
  started({ name: "sweep", everyMs: 1, run });
  await eventually(() => expect(run.mock.calls.length).toBeGreaterThan(5));
  expect(logger.lines.map(({ fields }) => fields)).toEqual([
    { task: "sweep", error: "disk full" },
    { task: "sweep", error: "read-only" },
  ]);
});
