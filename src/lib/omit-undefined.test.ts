import { expect, test } from "vitest";
import { omitUndefined } from "./omit-undefined.ts";

interface Options {
  readonly name: string;
  readonly mtu?: number;
  readonly mac?: string | null;
}

test("omitUndefined() leaves out what is undefined, and nothing else", () => {
  const options: Options = omitUndefined({
    name: "",
    mtu: undefined as number | undefined,
    mac: null as string | null | undefined,
  });
  expect(options).toStrictEqual({ name: "", mac: null });
  expect(omitUndefined({ a: 0, b: false, c: [undefined] })).toStrictEqual({
    a: 0,
    b: false,
    c: [undefined],
  });
});

test("omitUndefined() returns a copy", () => {
  const object = { a: 1 };
  expect(omitUndefined(object)).not.toBe(object);
});
