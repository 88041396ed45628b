import { expect, test, vi } from "vitest";
import { ApiError } from "./api/api-error.ts";
import { UnansweredWrites } from "./unanswered-writes.ts";

test("the time that an earlier write has left is over also after a timer that fires too early", () => {
  const now = vi.spyOn(performance, "now").mockReturnValue(1000.7);
  const writes = new UnansweredWrites(300);
  writes.note("web", { status: "older" }, new ApiError("no answer", { status: 0 }));
  expect(writes.mayReplaceMs("web", { status: "older" })).toBe(0);
  now.mockReturnValue(1000.9);
  expect(writes.mayReplaceMs("web", { status: "newer" })).toBe(301);
  now.mockReturnValue(1300.7);
  expect(writes.mayReplaceMs("web", { status: "newer" })).toBe(0);
});
