import { expect, test } from "vitest";
import { Trace } from "./trace.ts";

function ticking(...times: number[]): () => number {
  return () => times.shift() ?? 0;
}

test("Trace lists phases in the order in which they ended, aligned", async () => {
  const trace = new Trace(ticking(0, 1, 3, 13));
  const outer = trace.phase("resolve", () => trace.phase("pod", () => "inner"));
  expect(await outer).toBe("inner");
  trace.add("delegate ptp (n)", 0.1234);
  expect(trace.format()).toBe(
    [
      "plexus trace: pod                  2.000 ms",
      "plexus trace: resolve             13.000 ms",
      "plexus trace: delegate ptp (n)     0.123 ms",
      "",
    ].join("\n"),
  );
});

test("Trace lists a phase that fails, and rethrows its error", async () => {
  const trace = new Trace(ticking(5, 9));
  await expect(trace.phase("record", () => Promise.reject(new Error("full")))).rejects.toThrow(
    "full",
  );
  expect(trace.format()).toContain("record     4.000 ms");
});
