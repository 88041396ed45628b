import { afterEach, expect, test, vi } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { startupTaint } from "./startup-taint.ts";

const taint = "plexus.dev/not-ready";

afterEach(() => void vi.restoreAllMocks());

function makeTaint() {
  const reasons = ["no primary CNI yet"];
  const state = { key: taint as string | undefined, reasons, fails: false, nowMs: 100_000 };
  vi.spyOn(performance, "now").mockImplementation(() => state.nowMs);
  const removed: string[] = [];
  const remove = startupTaint({
    key: () => state.key,
    readiness: () => state.reasons,
    remove: async (key) => {
      if (state.fails) throw new Error("nodes is forbidden");
      removed.push(key);
      return true;
    },
    logger: new FakeLogger(),
  });
  return { state, removed, remove };
}

test("the startup taint is removed once when the node is ready, and a failure is retried", async () => {
  const { state, removed, remove } = makeTaint();
  await remove();
  Object.assign(state, { key: undefined, reasons: [] });
  await remove();
  expect(removed).toEqual([]);
  Object.assign(state, { key: taint, fails: true });
  await expect(remove()).rejects.toThrow("forbidden");
  state.fails = false;
  await remove();
  await remove();
  expect(removed).toEqual([taint]);
  Object.assign(state, { key: "example.com/other", nowMs: state.nowMs + 60_000 });
  await remove();
  expect(removed).toEqual([taint, "example.com/other"]);
});

test("a Node that was deleted and registered anew with the taint loses it, too", async () => {
  const { state, removed, remove } = makeTaint();
  state.reasons = [];
  await remove();
  state.nowMs += 59_000;
  await remove();
  expect(removed).toEqual([taint]);
  state.nowMs += 1000;
  await remove();
  expect(removed).toEqual([taint, taint]);
});
