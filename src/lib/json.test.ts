import { expect, test } from "vitest";
import { isJsonObject, jsonTypeName, quoteValue } from "./json.ts";

test.each([
  [{}, true],
  [{ a: 1 }, true],
  [Object.create(null), true],
  [null, false],
  [[], false],
  ["{}", false],
  [undefined, false],
])("isJsonObject(%j)", (value, expected) => {
  expect(isJsonObject(value)).toBe(expected);
});

test.each([
  [null, "null"],
  [[], "an array"],
  [{}, "an object"],
  ["", "a string"],
  [0, "a number"],
  [false, "a boolean"],
  [undefined, "a undefined"],
])("jsonTypeName(%j) is %s", (value, expected) => {
  expect(jsonTypeName(value)).toBe(expected);
});

test("quoteValue() renders a value as JSON in one line and cuts it", () => {
  expect(quoteValue("a\nb")).toBe('"a\\nb"');
  expect(quoteValue(undefined)).toBe("undefined");
  expect(quoteValue("x".repeat(100), 10)).toBe(`"${"x".repeat(9)}…`);
  expect(quoteValue("12345678", 10)).toBe('"12345678"');
});
