import { execFile } from "node:child_process";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { provingTests, strayIdentifiers } from "../scripts/conformance/test-names.ts";

test("the conformance pages are complete and as generated; `make docs` writes them", async () => {
  const cwd = join(import.meta.dirname, "..");
  const script = join(cwd, "scripts/conformance.ts");
  const checking = promisify(execFile)(process.execPath, [script, "--check"], { cwd });
  await expect(checking.catch((error: { stderr: string }) => error.stderr)).resolves.toMatchObject({
    stderr: "",
  });
});

/** Written so that this file has no identifier of its own. */
const id = (name: string): string => ["[", name, "]"].join("");

const root = "/repository";
const listedTest = (name: string, line: number, file = "src/a.test.ts") => ({
  name,
  file: join(root, file),
  location: { line },
});

test("provingTests() gives the tests that name requirements, in order, without identifiers", () => {
  const listed = [
    listedTest(`suite > f() says "no" ${id("R-1")} ${id("L-2")}`, 20),
    listedTest(`refuses %j ${id("N-2.a")} ${id("R-1")}`, 9),
    listedTest("names nothing", 1),
    listedTest(`x ${id("X-3")}`, 2),
    listedTest(`runs ${id("R-2")}`, 1, "e2e/b.test.ts"),
  ];
  expect(provingTests(root, listed)).toEqual([
    { file: "e2e/b.test.ts", name: "runs", ids: ["R-2"] },
    { file: "src/a.test.ts", name: "refuses %j", ids: ["N-2.a", "R-1"] },
    { file: "src/a.test.ts", name: 'suite > f() says "no"', ids: ["R-1"] },
  ]);
});

test("strayIdentifiers() finds those that are in no test's name", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-conformance-"));
  const source = `test.each([["${id("R-2")}"]])("f() works %s ${id("R-1")}", () => {`;
  await writeFile(join(dir.path, "a.test.ts"), source);
  const listed = [
    { ...listedTest(`f() works %s ${id("R-1")}`, 1), file: join(dir.path, "a.test.ts") },
  ];
  expect(strayIdentifiers(dir.path, listed)).toEqual([
    `a.test.ts: ${id("R-2")} stands where no test has its name`,
  ]);
});
