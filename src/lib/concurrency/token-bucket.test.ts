import { expect, test } from "vitest";
import { TokenBucket } from "./token-bucket.ts";

test("TokenBucket allows its burst, then one action per refilled token", () => {
  let now = 0;
  const bucket = new TokenBucket({ burst: 2, tokensPerSecond: 1, now: () => now });
  expect([bucket.tryTake(), bucket.tryTake(), bucket.tryTake()]).toEqual([true, true, false]);
  now = 999;
  expect(bucket.tryTake()).toBe(false);
  now = 1001;
  expect(bucket.tryTake()).toBe(true);
});

test("TokenBucket never holds more than its burst", () => {
  let now = 0;
  const bucket = new TokenBucket({ burst: 1, tokensPerSecond: 1, now: () => now });
  bucket.tryTake();
  now = 3_600_000;
  expect([bucket.tryTake(), bucket.tryTake()]).toEqual([true, false]);
});
