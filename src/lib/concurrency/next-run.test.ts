import { expect, test } from "vitest";
import { NextRun } from "./next-run.ts";

/** Work whose runs a test ends. */
function controlled() {
  const runs: { resolve: (value: number) => void; reject: (error: Error) => void }[] = [];
  const next = new NextRun<number>(
    () => new Promise((resolve, reject) => void runs.push({ resolve, reject })),
  );
  return { runs, next };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("callers share a run that began after all of them asked", async () => {
  const { runs, next } = controlled();
  const first = [next.run(), next.run()];
  await settled();
  const second = [next.run(), next.run(), next.run()];
  await settled();
  expect(runs).toHaveLength(1);
  runs[0]?.resolve(1);
  expect(await Promise.all(first)).toEqual([1, 1]);
  await settled();
  expect(runs).toHaveLength(2);
  runs[1]?.resolve(2);
  expect(await Promise.all(second)).toEqual([2, 2, 2]);
});

test("a run that fails is no later one's failure", async () => {
  const { runs, next } = controlled();
  const first = next.run();
  await settled();
  const second = next.run();
  runs[0]?.reject(new Error("no"));
  await expect(first).rejects.toThrow("no");
  await settled();
  runs[1]?.resolve(2);
  expect(await second).toBe(2);
});
