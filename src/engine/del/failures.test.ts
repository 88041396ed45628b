import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { combineErrors } from "./failures.ts";

test("combineErrors() returns a single error unchanged and combines several with code 102", () => {
  const first = new CniError(11, "busy");
  expect(combineErrors([first], "1 failed")).toBe(first);
  expect(combineErrors([first, new CniError(5, "locked")], "2 failed")).toMatchObject({
    code: 102,
    message: "2 failed: busy; locked",
    cause: { errors: [first, { code: 5, message: "locked" }] },
  });
});
