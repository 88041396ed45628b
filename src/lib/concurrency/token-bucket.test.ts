import { expect, test } from "vitest";
import { TokenBucket } from "./token-bucket.ts";

test("TokenBucket allows its burst, never more, and then one action per refilled token", () => {
  let now = 0;
  const bucket = new TokenBucket({ burst: 2, tokensPerSecond: 1, now: () => now });
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
  let now = 0;
  const bucket = new TokenBucket({ burst: 1, tokensPerSecond: 0.2, now: () => now });
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
