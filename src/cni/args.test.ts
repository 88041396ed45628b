import fc from "fast-check";
import { expect, test } from "vitest";
import { formatCniArgs, mergeCniArgs, parseCniArgs, parseCniArgsOfDel } from "./args.ts";

test.each([
  ["", []],
  ["K=V", [["K", "V"]]],
  ["K=V=1", [["K", "V=1"]]],
  ["K=V;", [["K", "V"]]],
  ["K=;;", [["K", ""]]],
])("parseCniArgs(%j) reads pairs; values may contain = or be empty [R-0.1-03]", (text, pairs) => {
  expect(parseCniArgs(text)).toEqual(pairs);
  expect(parseCniArgsOfDel(text)).toEqual(pairs);
});

test.each(["L", "=V", "K=V;K8S_POD_NAME", "IgnoreUnknown=1;=;", " "])(
  "parseCniArgs(%j) rejects a part that is not KEY=VALUE; parseCniArgsOfDel() skips it",
  (text) => {
    const refused = text.split(";").find((part) => !/^[^=]+=/.test(part)) ?? "";
    const message = `invalid CNI_ARGS: ${JSON.stringify(refused)} is not KEY=VALUE`;
    expect(() => parseCniArgs(text)).toThrow(expect.objectContaining({ code: 4, message }));
    expect(parseCniArgsOfDel(text).flat()).not.toContain(refused);
  },
);

test.each([
  [["K", "a;IP=1.2.3.4"], 'CNI_ARGS K: value "a;IP=1.2.3.4" contains ; or NUL'],
  [["K", "a\0"], 'CNI_ARGS K: value "a\\u0000" contains ; or NUL'],
  [["K;L", "a"], 'CNI_ARGS key "K;L" is empty or contains ; or = or NUL'],
  [["", "a"], 'CNI_ARGS key "" is empty or contains ; or = or NUL'],
] as const)("formatCniArgs() rejects %j, which would inject another pair", (pair, message) => {
  expect(() => formatCniArgs([pair])).toThrow(expect.objectContaining({ code: 4, message }));
});

test.each([
  [[], "IgnoreUnknown=1"],
  [["A=1;B=2", "A=3;C=4"], "IgnoreUnknown=1;A=3;B=2;C=4"],
  [["A=1;IgnoreUnknown=false"], "A=1;IgnoreUnknown=1"],
])("mergeCniArgs(%j) lets later values replace earlier ones, and sets IgnoreUnknown", (...row) => {
  const [sources, merged] = row;
  expect(mergeCniArgs(...sources.map(parseCniArgs))).toEqual(parseCniArgs(merged));
});

test("parseCniArgs() reads what formatCniArgs() wrote", () => {
  const key = fc.stringMatching(/^[^;=\0]+$/);
  const value = fc.stringMatching(/^[^;\0]*$/);
  fc.assert(
    fc.property(fc.array(fc.tuple(key, value)), (pairs) => {
      expect(parseCniArgs(formatCniArgs(pairs))).toEqual(pairs);
    }),
  );
});
