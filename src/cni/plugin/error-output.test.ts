import { expect, test } from "vitest";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { formatErrorOutput } from "./error-output.ts";

test("formatErrorOutput() prints version, code, message and details, indented by four spaces [R-0.1-09] [R-1.0-11] [R-1.0-41] [R-1.1-43] [S-112]", () => {
  const error = new CniError(7, "bad", { details: "why" });
  expect(formatErrorOutput(error, '{"cniVersion":"0.4.0"}')).toBe(
    '{\n    "cniVersion": "0.4.0",\n    "code": 7,\n    "msg": "bad",\n    "details": "why"\n}',
  );
});

test.each([
  [new CniError("MetaPlugin", "x"), 7, "reason=MetaPlugin"],
  [new CniError("PluginMissing", "x", { details: "why" }), 999, "reason=PluginMissing; why"],
  [new CniError("InvalidRequest", "x"), 100, "reason=InvalidRequest"],
  [new CniError(7, "x", { reason: "InvalidDefinition" }), 7, "reason=InvalidDefinition"],
  [new CniError("OverLimit", "x").withMessage("y"), 100, "reason=OverLimit"],
  [new CniError(7, "x").withMessage("y"), 7, undefined],
  [new CniError(42, "x"), 42, undefined],
])("formatErrorOutput() begins the details of %o with the reason", (error, code, details) => {
  expect(JSON.parse(formatErrorOutput(error, ""))).toMatchObject({ code });
  expect(JSON.parse(formatErrorOutput(error, "")).details).toBe(details);
});

test("formatErrorOutput() prints any other error with code 999 [S-110]", () => {
  const cause = new Error("inner");
  expect(JSON.parse(formatErrorOutput(new Error("outer", { cause }), "{}"))).toEqual({
    cniVersion: "0.1.0",
    code: 999,
    msg: "outer: inner",
    details: "reason=Internal",
  });
});

test.each([
  ['{"cniVersion":"1.0.0"}', "1.0.0"],
  ['{"cniVersion":"9.9.9"}', "9.9.9"],
  ['{"cniVersion":""}', "0.1.0"],
  ["{}", "0.1.0"],
  ['{"cniVersion":1}', "1.1.0"],
  ["", "1.1.0"],
  ["{", "1.1.0"],
])("formatErrorOutput() for stdin %j has version %s [R-1.0-41] [R-1.1-43]", (stdin, version) => {
  const error = new CniError("Internal", "x");
  expect(JSON.parse(formatErrorOutput(error, stdin)).cniVersion).toBe(version);
});

test.each([
  [-1, 999],
  [1.5, 999],
  [Number.NaN, 999],
  [0, 0],
])("formatErrorOutput() prints 999 for an invalid code: %d as %d [R-0.1-10]", (code, printed) => {
  expect(JSON.parse(formatErrorOutput(new CniError(code, "x"), "")).code).toBe(printed);
});

test("CniErrorCode has the specification's codes, and Plexus's own from 100 on [R-0.1-10] [R-0.4-36] [R-1.1-20]", () => {
  const { InvalidRequest: own, Internal: _library, ...codes } = CniErrorCode;
  const specified = Object.values(codes).filter((code) => code < 100);
  expect(specified).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 50, 51]);
  expect(own).toBe(100);
});
