import { expect, test } from "vitest";
import { isJsonObject, objectOf, objectsOf, quoteValue } from "./json.ts";

test("isJsonObject() accepts objects, but neither null nor arrays", () => {
  expect([{}, { a: 1 }, Object.create(null)].filter(isJsonObject)).toHaveLength(3);
  expect([null, [], "{}", undefined].filter(isJsonObject)).toEqual([]);
});

test("quoteValue() renders a value as one line of JSON, up to a maximum length", () => {
  expect(quoteValue("a\nb")).toBe('"a\\nb"');
  expect(quoteValue("\u202e\u009b")).toBe('"\\u202e\\u009b"');
  expect(quoteValue({ "\u2028": 1 })).toBe('{"\\u2028":1}');
  expect(quoteValue("\u202e".repeat(10), 18)).toBe(`"${"\\u202e".repeat(3)}…"`);
  expect(quoteValue(undefined)).toBe("undefined");
  expect(quoteValue("x".repeat(100), 10)).toBe(`"${"x".repeat(10)}…"`);
  expect(quoteValue("1234567890", 10)).toBe('"1234567890"');
  expect(quoteValue("\u0001".repeat(10), 18)).toBe(`"${"\\u0001".repeat(3)}…"`);
  expect(quoteValue("\ud800".repeat(100)).length).toBeLessThan(90);
  expect(quoteValue([1, 2, 3], 10)).toBe("[1,2,3]");
  expect(quoteValue(Array(100).fill(0))).toBe("an array");
  expect(quoteValue({ a: "x".repeat(100) })).toBe("an object");
});

test("objectOf() and objectsOf() skip what is no object", () => {
  expect(objectOf({ a: 1 })).toEqual({ a: 1 });
  for (const value of [undefined, null, [], "a", 1]) expect(objectOf(value)).toEqual({});
  expect(objectsOf([{ a: 1 }, [], null, "a"])).toEqual([{ a: 1 }]);
  expect(objectsOf({ a: 1 })).toEqual([]);
});
