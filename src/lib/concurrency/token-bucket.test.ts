import { afterEach, expect, test, vi } from "vitest";
import { TokenBucket } from "./token-bucket.ts";

let now = 0;

afterEach(() => void vi.restoreAllMocks());

function bucketOf(burst: number, tokensPerSecond: number): TokenBucket {
  now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  return new TokenBucket({ burst, tokensPerSecond });
}

test("TokenBucket allows its burst, never more, and then one action per refilled token", () => {
  const bucket = bucketOf(2, 1);
  const take = (): boolean[] => [bucket.tryTake(), bucket.tryTake(), bucket.tryTake()];
  expect(take()).toEqual([true, true, false]);
  now = 999;
  expect(bucket.tryTake()).toBe(false);
  now = 1001;
  expect(take()).toEqual([true, false, false]);
  now = 3_600_000;
  expect(take()).toEqual([true, true, false]);
});

test("waitMs says when there is a token", () => {
  const bucket = bucketOf(1, 0.2);
  expect(bucket.waitMs).toBe(0);
  bucket.take();
  expect(bucket.waitMs).toBe(5000);
  now = 4000;
  expect(bucket.waitMs).toBe(1000);
  now = 5000;
  expect([bucket.waitMs, bucket.tryTake()]).toEqual([0, true]);
  bucket.take();
  expect(bucket.waitMs).toBe(10_000);
});
