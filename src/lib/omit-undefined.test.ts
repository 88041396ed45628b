import { expect, expectTypeOf, test } from "vitest";
import { omitUndefined } from "./omit-undefined.ts";

test("omitUndefined() leaves out undefined members and nothing else", () => {
  expect(omitUndefined({ a: undefined, b: null, c: 0, d: "", e: false })).toStrictEqual({
    b: null,
    c: 0,
    d: "",
    e: false,
  });
});

test("omitUndefined() makes members that may be undefined exactly optional", () => {
  const value = omitUndefined({ a: "x", b: undefined as number | undefined });
  expectTypeOf(value).toExtend<{ a: string; b?: number }>();
});
