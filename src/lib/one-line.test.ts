import { expect, test } from "vitest";
import { messageMax, oneLine, printable, printableLines } from "./one-line.ts";

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

const hidden = [
  ["a terminal's escape sequence", "\u001b[2J", "\\u001b[2J"],
  ["the same of C1", "\u009b2J", "\\u009b2J"],
  ["a change of direction", "a\u202eb", "a\\u202eb"],
  ["a separator of lines", "a\u2028b\u2029c", "a\\u2028b\\u2029c"],
  ["joiners and soft hyphens", "a\u200d\u00adb\ufeffc", "a\\u200d\\u00adb\\ufeffc"],
  ["tags", "a\u{e0041}", "a\\udb40\\udc41"],
  ["DEL and NUL", "\u007f\0", "\\u007f\\u0000"],
] as const;

test.each(hidden)("on one line and on several, Plexus escapes %s [S-309]", (_, text, shown) => {
  expect([printable(text), printableLines(text), oneLine(text)]).toEqual([shown, shown, shown]);
});

test.each(hidden)("JSON with %s keeps its meaning", (_, text) => {
  expect(JSON.parse(printable(JSON.stringify({ [text]: text })))).toEqual({ [text]: text });
});

test("texts of any language stay, and several lines stay lines", () => {
  const text = "é ü Straße 日本 عربي 🙂 \\u202e";
  expect([printable(text), printableLines(text)]).toEqual([text, text]);
  expect(printableLines("a\n\tb\r\n")).toBe("a\n\tb\\u000d\n");
  expect(printable("a\n\tb")).toBe("a\\u000a\\u0009b");
});
