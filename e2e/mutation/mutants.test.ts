import { expect, test } from "vitest";
import { shimMutants } from "./shim-mutants.ts";
import { mutantsOf } from "./stryker.ts";

const code = `#if A && B
/* if (a && b) */
int f(int a, const char *b)
{
	if (a)
		print("if (a && b) %d", a);
	if (a < 1 &&
	    b)
		return 0;
	return g(a);
}
`;

test("shimMutants() changes conditions, operators and calls, but no comments and strings", () => {
  const mutants = shimMutants("shim/f.c", code);
  expect(mutants.map(({ line, before, after }) => `${line}: ${before} => ${after}`)).toEqual([
    "5: if (a) => if (0 && (a))",
    "5: if (a) => if (1 || (a))",
    '6: print("if (a && b) %d", a); => ;',
    "7: if (a < 1 && b) => if (0 && (a < 1 && b))",
    "7: if (a < 1 && => if (a <= 1 &&",
    "7: if (a < 1 && => if (a < 1 ||",
  ]);
  expect(mutants[4]?.text).toBe(code.replace("a < 1", "a <= 1"));
});

test("mutantsOf() gives the lines that a mutant changes, and whether a test failed", () => {
  const location = { start: { line: 2, column: 5 }, end: { line: 2, column: 10 } };
  const statuses = ["Killed", "Timeout", "Survived", "NoCoverage", "Ignored"] as const;
  const mutant = (status: (typeof statuses)[number]) => ({
    replacement: "false",
    status,
    location,
  });
  const source = "f();\nif (a > b) f();\n";
  const report = { files: { "src/a.ts": { source, mutants: statuses.map(mutant) } } };
  expect(mutantsOf(report)).toEqual(
    ["killed", "killed", "survived", "untested"].map((outcome) => ({
      file: "src/a.ts",
      line: 2,
      before: "if (a > b) f();",
      after: "if (false) f();",
      outcome,
    })),
  );
});
