import { afterEach, expect, test, vi } from "vitest";
import type { CniConfDir } from "./conf-dir.ts";
import { RestoreBackoffs } from "./foreign-change.ts";

const dir: CniConfDir = {
  ...{ text: undefined, conf: undefined },
  ...{ sortedBefore: [], copies: [], others: [], renamed: [] },
};

afterEach(() => void vi.restoreAllMocks());

test("each restore comes later than the one before, until none was needed for a while", () => {
  const now = vi.spyOn(performance, "now").mockReturnValue(5);
  const pass = (ms: number): unknown => now.mockReturnValue(performance.now() + ms);
  const delays = { initialMs: 100, maxMs: 1000, factor: 4, jitter: 0 };
  const backoffs = new RestoreBackoffs({ restore: delays, repair: delays, calmMs: 60_000 });
  const waited = [0, 10, 10, 10, 70_000, 10].map((calmMs) => {
    pass(calmMs);
    const ms = backoffs.waitMs(dir);
    pass(ms);
    expect(backoffs.waitMs(dir)).toBe(0);
    backoffs.restored();
    return ms;
  });
  expect(waited).toEqual([100, 400, 1000, 1000, 100, 400]);
});
