import { expect, test } from "vitest";
import { apiErrorOf } from "./api-error.ts";

const inTenSeconds = (): string => new Date(Date.now() + 10_500).toUTCString();

test.for<[what: string, retryAfter: string | undefined, details: object, seconds: number[]]>([
  ["seconds", "3", {}, [3, 6]],
  ["a date, as a proxy may send it", inTenSeconds(), {}, [5, 22]],
  ["a date that is over", "Sat, 01 Jan 2000 00:00:00 GMT", {}, [0, 0]],
  ["more than two minutes", "9000", {}, [120, 240]],
  ["the Status object's seconds", undefined, { retryAfterSeconds: 4 }, [4, 8]],
  ["these, if the header says nothing", "soon", { retryAfterSeconds: 4 }, [4, 8]],
  ["nothing", undefined, {}, [0, 0]],
])("apiErrorOf() reads Retry-After: %s", ([, retryAfter, details, [least = 0, most = 0]]) => {
  const { retryAfterMs } = apiErrorOf("GET /", { status: 429, body: { details }, retryAfter });
  expect(retryAfterMs).toBeGreaterThanOrEqual(least * 1000);
  expect(retryAfterMs).toBeLessThanOrEqual(most * 1000);
});

test("nodes that are asked to come back after the same time come back at different times", () => {
  const answer = { status: 429, body: {}, retryAfter: "1" };
  const delays = Array.from({ length: 20 }, () => apiErrorOf("GET /", answer).retryAfterMs);
  expect(Math.max(...delays) - Math.min(...delays)).toBeGreaterThan(200);
});
