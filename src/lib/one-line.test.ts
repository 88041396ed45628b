import { expect, test } from "vitest";
import { messageMax, oneLine } from "./one-line.ts";

test.each([
  ["", ""],
  ["  a  b  ", "a  b"],
  ["a \r\n\n\t b\n", "a b"],
  ["\n\n", ""],
])("oneLine(%j) is %j", (message, line) => {
  expect(oneLine(message)).toBe(line);
});

test("oneLine() truncates a long message and appends an ellipsis", () => {
  expect(oneLine("x".repeat(messageMax))).toBe("x".repeat(messageMax));
  expect(oneLine("x".repeat(messageMax + 1))).toBe(`${"x".repeat(messageMax)}…`);
});
