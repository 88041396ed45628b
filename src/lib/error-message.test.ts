import { expect, test } from "vitest";
import { errorMessage } from "./error-message.ts";

test.each([
  [new RangeError("too long"), "too long"],
  ["just text", "just text"],
  [undefined, "undefined"],
])("errorMessage(%s)", (thrown, message) => {
  expect(errorMessage(thrown)).toBe(message);
});
