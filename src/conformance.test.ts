import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { scanFile } from "../scripts/conformance/test-names.ts";

test("the conformance pages are complete and as generated; `make docs` writes them", async () => {
  const root = join(import.meta.dirname, "..");
  const script = join(root, "scripts/conformance.ts");
  const checking = promisify(execFile)(process.execPath, [script, "--check"], { cwd: root });
  await expect(checking.catch((error: { stderr: string }) => error.stderr)).resolves.toMatchObject({
    stderr: "",
  });
});

/** Written so that this file has no identifier of its own. */
const id = (name: string): string => ["[", name, "]"].join("");

test.each([
  [`test("it works ${id("R-1")} ${id("N-2.a")} ${id("X-3")}", () => {`, ["R-1", "N-2.a"]],
  [`it('it works ${id("R-1")}', () => {`, ["R-1"]],
  [`test.concurrent(\n  \`it \${works} ${id("R-1")}\`,\n  () => {`, ["R-1"]],
  [`test.each([\n  ["f(x)", 1],\n])("it works ${id("R-1")}", () => {`, ["R-1"]],
  [`test.each([\n  ["x", "${id("R-1")}"],\n])("it works %s %s", () => {`, ["R-1"]],
  [`const rows = [\n  ["x", "${id("R-1")}"],\n];\ntest.each(rows)("it works $1", () => {`, ["R-1"]],
])("scanFile() finds the test's identifiers in %j", (source, ids) => {
  const { tests, stray } = scanFile("a.test.ts", source);
  expect(tests.flatMap((found) => found.ids)).toEqual(ids);
  expect(stray).toEqual([]);
});

test.each([
  `test.skip("it works ${id("R-1")}", () => {`,
  `test.todo("it works ${id("R-1")}", () => {`,
  `describe("it works ${id("R-1")}", () => {`,
  `// it works ${id("R-1")}`,
  `test("it works", () => {\n  expect(f("x")("${id("R-1")}", 1));\n});`,
])("scanFile() takes no proof of %j", (source) => {
  const { tests, stray } = scanFile("a.test.ts", source);
  expect(tests).toEqual([]);
  expect(stray).toEqual([`a.test.ts: ${id("R-1")} stands where no test has its name`]);
});

test("scanFile() gives names without identifiers", () => {
  const source = `test("f() says \\"no\\" ${id("R-1")} ${id("L-2")}", () => {`;
  expect(scanFile("a.test.ts", source).tests).toEqual([
    { file: "a.test.ts", name: 'f() says "no"', ids: ["R-1"] },
  ]);
});
