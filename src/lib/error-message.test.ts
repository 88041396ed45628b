import { expect, test } from "vitest";
import { errorMessage } from "./error-message.ts";

test.each([
  [new TypeError("no such thing"), "no such thing"],
  ["a text", "a text"],
  [undefined, "undefined"],
  [{ code: 1 }, "[object Object]"],
])("errorMessage(%j) is %j", (error, message) => {
  expect(errorMessage(error)).toBe(message);
});
