import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { deadline, pause, untilAborted } from "./deadline.ts";

test("deadline() fires with a TimeoutError after its time", async () => {
  using limit = deadline(10.25);
  await pause(1000, limit.signal);
  expect(limit.signal.reason).toMatchObject({
    name: "TimeoutError",
    message: "no answer within 10 ms",
  });
});

test("deadline() fires with its parent's reason, and leaves no listener on it", () => {
  const parent = new AbortController();
  {
    using _limit = deadline(1000, parent.signal);
  }
  expect(getEventListeners(parent.signal, "abort")).toHaveLength(0);
  using limit = deadline(1000, parent.signal);
  parent.abort("enough");
  using late = deadline(1000, parent.signal);
  expect([limit.signal.reason, late.signal.reason]).toEqual(["enough", "enough"]);
});

test("untilAborted() rejects with the signal's reason while the promise is pending", async () => {
  const never = new Promise<void>(() => undefined);
  await expect(untilAborted(never, AbortSignal.abort(new Error("stop")))).rejects.toThrow("stop");
  const later = new AbortController();
  const waiting = untilAborted(never, later.signal);
  later.abort(new Error("stop later"));
  await expect(waiting).rejects.toThrow("stop later");
});

test("untilAborted() passes on the promise's outcome and removes its listener", async () => {
  const { signal } = new AbortController();
  await expect(untilAborted(Promise.resolve(7), signal)).resolves.toBe(7);
  await expect(untilAborted(Promise.reject(new Error("no")), signal)).rejects.toThrow("no");
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});
