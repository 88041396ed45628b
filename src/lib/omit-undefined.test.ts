import { expect, expectTypeOf, test } from "vitest";
import { omitUndefined } from "./omit-undefined.ts";

test("omitUndefined() drops undefined members and keeps the others, null and false included", () => {
  const object = { a: 1, b: undefined, c: null, d: false, e: "" };
  expect(Object.entries(omitUndefined(object))).toEqual([
    ["a", 1],
    ["c", null],
    ["d", false],
    ["e", ""],
  ]);
  expect(Object.keys(object)).toHaveLength(5);
});

test("omitUndefined() gives what exactOptionalPropertyTypes takes for an optional member", () => {
  const name: string | undefined = ["x"].find((text) => text === "y");
  const exact: { readonly id: number; readonly name?: string } = omitUndefined({ id: 1, name });
  expect("name" in exact).toBe(false);
  expectTypeOf(omitUndefined({ id: 1, name })).toExtend<{ id: number; name?: string }>();
});
