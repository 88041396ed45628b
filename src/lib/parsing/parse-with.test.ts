import { expect, test } from "vitest";
import * as z from "zod";
import { DocumentError } from "./document-error.ts";
import { parseWith } from "./parse-with.ts";

const schema = z.strictObject({ items: z.array(z.strictObject({ n: z.int() })), on: z.boolean() });

test.each([
  [{ items: [{ n: 1 }], on: true, a: 1, b: 2 }, "a: unknown key, got 1; b: unknown key, got 2"],
  [
    { items: [{ n: 1 }, { n: "x", y: 0 }], on: true },
    'items[1].n: expected number, got "x"; items[1].y: unknown key, got 0',
  ],
  [{ items: [] }, "on: expected boolean, received undefined"],
  [null, "expected object, got null"],
])("parseWith() of %j names every wrong field", (value, problems) => {
  expect(() => parseWith(schema, value, "file x")).toThrow(DocumentError);
  expect(() => parseWith(schema, value, "file x")).toThrow(`file x: ${problems}`);
});

test("parseWith() returns a valid value", () => {
  const value = { items: [{ n: 1 }], on: false };
  expect(parseWith(schema, value, "x")).toEqual(value);
});
