import { describe, expect, test } from "vitest";
import type { JsonObject } from "#lib/json.ts";
import { DocumentError, type FieldProblem } from "./document-error.ts";
import { FieldReader, readFields } from "./field-reader.ts";
import { parseJsonText } from "./json-text.ts";

/** The value that a reading gives, and its problems as `path: reason`. */
function read<T>(
  object: JsonObject,
  reading: (fields: FieldReader) => T,
  rules: { foldCase?: boolean } = {},
): { value: T; problems: string[] } {
  const problems: FieldProblem[] = [];
  const value = reading(new FieldReader(object, { ...rules, path: "", problems }));
  return { value, problems: problems.map(({ path, reason }) => `${path}: ${reason}`) };
}

describe("FieldReader", () => {
  test("reads existing fields, and treats null as absent", () => {
    const object = { text: "a", count: 3, list: ["b"], inner: { c: 1 }, none: null };
    const { value, problems } = read(object, (fields) => [
      fields.string("text"),
      fields.integer("count"),
      fields.strings("list"),
      fields.object("inner")?.integer("c"),
      fields.string("none"),
      fields.object("absent"),
      fields.elements("absent"),
      fields.has("none"),
      fields.value("constructor"),
    ]);
    expect(value).toEqual(["a", 3, ["b"], 1, undefined, undefined, [], true, undefined]);
    expect(problems).toEqual([]);
  });

  test("notes every problem with its path and value", () => {
    const object = {
      text: 1,
      short: "",
      list: ["a", 2],
      map: { a: "b", c: 4 },
      inner: { items: [{ n: 1.5 }, []] },
    };
    const { problems } = read(object, (fields) => {
      fields.string("text");
      fields.required("short");
      fields.required("absent");
      fields.strings("list");
      fields.stringMap("map");
      const items = fields.object("inner")?.objects("items");
      items?.[0]?.integer("n");
      fields.elements("inner");
      fields.refuseOthers(["text", "short", "list", "inner"]);
    });
    expect(problems).toEqual([
      "text: must be a string, got 1",
      "short: is missing",
      "absent: is missing",
      "list[1]: must be a string, got 2",
      'map["c"]: must be a string, got 4',
      "inner.items[1]: must be an object, got []",
      "inner.items[0].n: must be a non-negative integer, got 1.5",
      'inner: must be an array, got {"items":[{"n":1.5},[]]}',
      "map: unknown key",
    ]);
  });

  test.each([
    [{}, -1, "a non-negative integer"],
    [{ min: 1 }, 0, "a positive integer"],
    [{ min: 1, max: 5 }, 6, "an integer from 1 to 5"],
    [{ min: Number.MIN_SAFE_INTEGER }, 0.5, "an integer"],
  ])("names the range %j of an integer", (range, value, wanted) => {
    const { problems } = read({ n: value }, (fields) => fields.integer("n", range));
    expect(problems).toEqual([`n: must be ${wanted}, got ${value}`]);
  });

  test.each([
    ["9007199254740993", {}, "from 0 to 9007199254740991"],
    ["-9007199254740993", {}, "from 0 to 9007199254740991"],
    ["9007199254740992", { min: 1 }, "from 1 to 9007199254740991"],
    ["18446744073709551615", { min: 1, max: 5 }, "from 1 to 5"],
  ])("refuses the integer %s with its digits and the range", (text, range, wanted) => {
    const object = parseJsonText(`{"n": ${text}}`) as JsonObject;
    const { problems } = read(object, (fields) => fields.integer("n", range));
    expect(problems).toEqual([`n: must be an integer ${wanted}, got ${text}`]);
  });

  test("takes an integer beyond 2^53 for no object", () => {
    const object = parseJsonText('{"n": 9007199254740993}') as JsonObject;
    const { problems } = read(object, (fields) => fields.object("n"));
    expect(problems).toEqual(["n: must be an object, got 9007199254740993"]);
  });

  test("applies checks to strings", () => {
    const check = (text: string): string | undefined =>
      text.startsWith("a") ? undefined : "must begin with a";
    const object = { good: "ab", bad: "b", empty: "", list: ["a", "c"] };
    const { value, problems } = read(object, (fields) => [
      fields.checked("good", check),
      fields.checked("bad", check),
      fields.checked("empty", check),
      fields.checked("absent", check),
      fields.requiredChecked("absent", check),
      fields.strings("list", check),
    ]);
    expect(value).toEqual(["ab", undefined, undefined, undefined, "", ["a"]]);
    expect(problems).toEqual([
      'bad: must begin with a, got "b"',
      "empty: must begin with a",
      "absent: is missing",
      'list[1]: must begin with a, got "c"',
    ]);
  });

  test("matches keys in any case with foldCase, also in nested objects", () => {
    const object = { HostPort: 1, hostport: 2, Inner: { KEY: "a" } };
    const reading = (fields: FieldReader) => [
      fields.integer("hostPort"),
      fields.object("inner")?.string("key"),
    ];
    expect(read(object, reading, { foldCase: true }).value).toEqual([2, "a"]);
    expect(read(object, reading).value).toEqual([undefined, undefined]);
  });
});

describe("readFields()", () => {
  test("throws an error with up to ten problems, and counts the rest", () => {
    const keys = Array.from({ length: 12 }, (_, i) => `k${i}`);
    const reading = (): unknown =>
      readFields({}, { subject: "cannot read x" }, (fields) => keys.map((k) => fields.required(k)));
    expect(reading).toThrow(DocumentError);
    expect(reading).toThrow(/^cannot read x: k0: is missing; .*; k9: is missing; and 2 more$/);
  });

  test.each([null, [], "a"])("rejects %j, which is not an object", (value) => {
    const message = `x: must be an object, got ${JSON.stringify(value)}`;
    expect(() => readFields(value, { subject: "x" }, () => 1)).toThrow(message);
  });
});
