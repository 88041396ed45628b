import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { NextRun } from "./next-run.ts";

test("callers share a run that began after all of them asked, whether or not the one before fails", async () => {
  const runs: PromiseWithResolvers<number>[] = [];
  const next = new NextRun<number>(() => {
    runs.push(Promise.withResolvers<number>());
    return runs.at(-1)!.promise;
  });
  const first = [next.run(), next.run()];
  await turn();
  const second = [next.run(), next.run(), next.run()];
  await turn();
  expect(runs).toHaveLength(1);
  runs[0]?.reject(new Error("no"));
  for (const each of first) await expect(each).rejects.toThrow("no");
  await turn();
  expect(runs).toHaveLength(2);
  runs[1]?.resolve(2);
  expect(await Promise.all(second)).toEqual([2, 2, 2]);
});
