import { expect, test } from "vitest";
import { Trace } from "./trace.ts";

function ticking(...times: number[]): () => number {
  return () => times.shift() ?? 0;
}

test("Trace lists phases in the order in which they ended, with their start, aligned", async () => {
  const trace = new Trace(ticking(20, 21, 23, 33, 40));
  const outer = trace.phase("resolve", () => trace.phase("pod", () => "inner"));
  expect(await outer).toBe("inner");
  trace.add("delegate ptp (n)", 0.1234);
  expect(trace.format(1_763_866_522_123_456)).toBe(
    [
      "plexus trace: started 1763866522.123456",
      "plexus trace: pod              at     1.000 ms for     2.000 ms",
      "plexus trace: resolve          at     0.000 ms for    13.000 ms",
      "plexus trace: delegate ptp (n) at    19.877 ms for     0.123 ms",
      "",
    ].join("\n"),
  );
});
