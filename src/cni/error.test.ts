import { expect, test } from "vitest";
import { reasonRows } from "#lib/reasons.ts";
import { CniErrorCode, flattenCauses } from "./error.ts";

/** An error and its causes, outermost first. */
function caused(...messages: string[]): Error | undefined {
  const [message, ...causes] = messages;
  return message === undefined ? undefined : new Error(message, { cause: caused(...causes) });
}

test.each([
  [["outer", "inner"], "outer: inner"],
  [["cannot read a: EACCES", "EACCES"], "cannot read a: EACCES"],
  [["a", "b", "a"], "a: b"],
  [["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"], "1: 2: 3: 4: 5: 6: 7: 8"],
  [["two\nlines", "inner"], "two lines: inner"],
])("flattenCauses() joins %j without repetitions, up to a depth of 8", (messages, line) => {
  expect(flattenCauses(caused(...messages))).toBe(line);
});

test("each reason has one of the error codes", () => {
  const codes = new Set<number>(Object.values(CniErrorCode));
  expect(reasonRows().filter(([, { code }]) => !codes.has(code))).toEqual([]);
});

test("a reason that has the name of a code has that code", () => {
  const codes: Readonly<Record<string, number>> = CniErrorCode;
  for (const [name, { code }] of reasonRows()) expect(codes[name] ?? code).toBe(code);
});
