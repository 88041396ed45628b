import { expect, test } from "vitest";
import { reasonRows } from "#lib/reasons.ts";
import { CniError, CniErrorCode, defectIn, flattenCauses } from "./error.ts";

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

const defect = new TypeError("x is not a function");

test.for<[what: string, error: unknown, found: Error | undefined]>([
  ["a TypeError", defect, defect],
  ["what it is the cause of", new CniError("Internal", "x", { cause: defect }), defect],
  [
    "that with another message",
    new CniError("Internal", "x", { cause: defect }).withMessage("y"),
    defect,
  ],
  [
    "one of several errors",
    new CniError("TeardownIncomplete", "x", {
      cause: new AggregateError([
        new Error("busy"),
        new CniError("Internal", "", { cause: defect }),
      ]),
    }),
    defect,
  ],
  ["no error about input", new CniError("InvalidRequest", "x", { cause: defect }), undefined],
  ["no other error", new Error("x", { cause: defect }), undefined],
  ["no internal error of the system", new CniError("Internal", "EIO"), undefined],
  ["no error of a plugin", new CniError(999, "x"), undefined],
  ["nothing else", "x", undefined],
])("defectIn() finds %s", ([, error, found]) => {
  expect(defectIn(error)).toBe(found);
});

test("what others wrote is readable in an error, and does nothing to a terminal [S-309]", () => {
  const error = new CniError("InvalidRequest", "no \u202eder", { details: "\u009b2J\n" });
  expect(error.toJSON()).toMatchObject({
    msg: "no \\u202eder",
    details: "reason=InvalidRequest; \\u009b2J\\u000a",
  });
  expect(error.withMessage(error.message).text).toBe(error.text);
});
