import { expect, test } from "vitest";
import { isJsonObject } from "#lib/json.ts";
import { JsonTextError, keysIn, parseJsonText } from "./json-text.ts";

test.each([
  ["", "unexpected end, expected a value at line 1, column 1"],
  ["[1,\n 2,]", 'unexpected "]", expected a value at line 2, column 4'],
  ['{"a": 1,}', 'unexpected "}", expected a key in double quotes at line 1, column 9'],
  ['{"a" 1}', 'unexpected "1", expected ":" at line 1, column 6'],
  ['{"a": tru}', 'unexpected "t", expected a value at line 1, column 7'],
  ['{"a": "x', 'unexpected "\\"", expected a value at line 1, column 7'],
  ['{"a": 1 "b": 2}', 'unexpected "\\"", expected "," or "}" at line 1, column 9'],
  ["[1] 2", 'unexpected "2", expected the end at line 1, column 5'],
  ['{\n  "a": 1 // no comments\n}', 'unexpected "/", expected "," or "}" at line 2, column 10'],
  ["[01]", 'unexpected "1", expected "," or "]" at line 1, column 3'],
  ["{a: 1}", 'unexpected "a", expected a key in double quotes or "}" at line 1, column 2'],
  ["[", 'unexpected end, expected a value or "]" at line 1, column 2'],
  ["1e400", "number 1e400 is out of range at line 1, column 1"],
  ["[[1], -1E+309]", "number -1E+309 is out of range at line 1, column 7"],
  [
    '{"a": {"b": 1},\n "c": [0, 1e400]}',
    'number 1e400 of key "c" is out of range at line 2, column 11',
  ],
  ['[{"a": 1}, 1e400]', "number 1e400 is out of range at line 1, column 12"],
  [
    '{"e": "1e400", "f\\"": 2e0308}',
    'number 2e0308 of key "f\\"" is out of range at line 1, column 23',
  ],
  [
    `{"a": ${"9".repeat(310)}}`,
    `number ${"9".repeat(80)}… of key "a" is out of range at line 1, column 7`,
  ],
])("parseJsonText(%j) reports the line and column of the error", (text, message) => {
  const [, reason = "", line, column] = /^(.*) at line (\d+), column (\d+)$/.exec(message) ?? [];
  const place = { line: Number(line), column: Number(column) };
  expect(() => parseJsonText(text)).toThrow(new JsonTextError(reason, place));
});

test("parseJsonText() refuses nesting deeper than the limit without recursing", () => {
  expect(() => parseJsonText("[".repeat(100_000))).toThrow("nested more than 100 levels deep");
  const balanced = "[".repeat(100_000) + "]".repeat(100_000);
  expect(() => parseJsonText(balanced)).toThrow("at line 1, column 101");
});

test("parseJsonText() refuses an integer that the engine cannot keep", () => {
  const { rawJSON } = JSON;
  delete JSON.rawJSON;
  try {
    const text = '[{"id": 9007199254740993}, 1e400]';
    const message =
      'number 9007199254740993 of key "id" has more digits than this JavaScript engine can keep';
    expect(() => parseJsonText(text)).toThrow(message);
    const exact = ' [9007199254740992, 1.12345678901234567890, "9007199254740993"] ';
    expect(parseJsonText(exact)).toEqual(JSON.parse(exact));
  } finally {
    Object.assign(JSON, { rawJSON });
  }
});

test("parseJsonText() accepts finite numbers, strings that look like others, and repeated keys", () => {
  const text = '["1e400", "[[[[", 1e308, -1.7976931348623157e308, 1e-400, 0e999, 12e30]';
  expect(parseJsonText(text)).toEqual(["1e400", "[[[[", 1e308, -Number.MAX_VALUE, 0, 0, 12e30]);
  expect(parseJsonText('{"a": 1, "a": 2}')).toEqual({ a: 2 });
});

test.each([
  '{"a":9007199254740993,"b":[-9007199254740993,{"c":18446744073709551615}]}',
  '[1000000000000000000000,9007199254740992,1.5,"9007199254740993"]',
  "9007199254740993",
  '{"a":1,"a":9007199254740993}',
])("parseJsonText() keeps the digits of every integer in %s", (text) => {
  expect(JSON.stringify(parseJsonText(text))).toBe(text.replace('"a":1,', ""));
});

test("parseJsonText() reads all other numbers as numbers, also beside a longer integer", () => {
  const text = "[-0, 0, 1.0, 1e6, 9007199254740991, 9007199254740993]";
  const [...numbers] = parseJsonText(text) as unknown[];
  expect(numbers.slice(0, -1)).toEqual([-0, 0, 1, 1_000_000, 2 ** 53 - 1]);
  expect(isJsonObject(numbers.at(-1))).toBe(false);
});

test("parseJsonText() rejects 256 KiB of brackets, quotes or backslashes without a crash", () => {
  for (const c of ["[", "{", '"', "\\", '"\\', "]", "}", " ", "\u0000", "{}"]) {
    expect(() => parseJsonText(c.repeat(262_144 / c.length))).toThrow(JsonTextError);
  }
});

test("parseJsonText() handles strings with millions of escapes, complete or truncated", () => {
  const escapes = "\\n".repeat(5_000_000);
  expect(parseJsonText(`"${escapes}"`)).toHaveLength(5_000_000);
  expect(() => parseJsonText(`"${escapes}`)).toThrow(JsonTextError);
});

test.each<[string, string[], string[]]>([
  ['{"a":{"b":1,"a":"\\":\\""},"c":[{"b":2},{"b":3}]}', ["a", "b", "a", "c", "b", "b"], []],
  ['{ "a" : 1, "b":{"a":2}, "A":3, "\\u0061":4 }', ["a", "b", "a", "A", "a"], ["A", "a"]],
  [
    '{"\u017fysctl":1,"sysctl":2,"\u212Aey":3,"key":4}',
    ["\u017fysctl", "sysctl", "\u212Aey", "key"],
    ["sysctl", "key"],
  ],
  ['[1,"a",{}]', [], []],
])("keysIn(%s) are all keys, and those that their object has twice", (text, keys, repeated) => {
  const found = [...keysIn(text)];
  expect(found.map(({ key }) => key)).toEqual(keys);
  expect(found.filter(({ isRepeated }) => isRepeated).map(({ key }) => key)).toEqual(repeated);
});
