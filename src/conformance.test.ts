import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { promiseProblems } from "../scripts/conformance/promises.ts";
import { renderSecurityPage, securityProblems } from "../scripts/conformance/security.ts";
import { renderPage } from "../scripts/conformance/specifications.ts";
import { provingTests, strayIdentifiers } from "../scripts/conformance/test-names.ts";

/** Composed at run time, so that this file contains no identifiers. */
const id = (name: string): string => ["[", name, "]"].join("");

const root = "/repository";
const listedTest = (name: string, line: number, file = "src/a.test.ts") => ({
  name,
  file: join(root, file),
  location: { line },
});

test("provingTests() returns the tests that name requirements, sorted, without identifiers", () => {
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

test("strayIdentifiers() finds requirement identifiers outside of test titles", async () => {
  const dir = await temporaryDirectory();
  const source = `test.each([["${id("R-2")}"]])("f() works %s ${id("R-1")}", () => {`;
  await writeFile(join(dir, "a.test.ts"), source);
  const listed = [{ ...listedTest(`f() works %s ${id("R-1")}`, 1), file: join(dir, "a.test.ts") }];
  expect(strayIdentifiers(dir, listed)).toEqual([
    `a.test.ts: ${id("R-2")} stands where no test has its name`,
  ]);
});

test.each([
  [
    {},
    "| Requirement | What it says | Tests |",
    "| R-1 MUST | a \\| b | [a.test.ts](a.test.ts)<br>[b.test.ts](b.test.ts) |",
    "| R-2 SHOULD | c | *Why.* |",
  ],
  [{ isListed: true }, "- R-1: [a.test.ts](a.test.ts)<br>[b.test.ts](b.test.ts)", "- R-2: *Why.*"],
] as const)("renderPage() links to each requirement's files once: %j", async (options, ...rows) => {
  const dir = await temporaryDirectory();
  await writeFile(join(dir, "page.md"), "# P\n<!-- tests -->stale<!-- end of tests -->\nend");
  const requirements = [
    { id: "R-1", level: "MUST", text: "a | b" },
    { id: "R-2", level: "SHOULD", text: "c", exception: "Why." },
  ] as const;
  const tests = ["a.test.ts", "a.test.ts", "b.test.ts"].map((file) => ({
    ...{ file, name: "x", ids: ["R-1"] },
  }));
  const page = renderPage(dir, { prefix: "R-", requirements, page: "page.md", ...options }, tests);
  const lines = page.split("\n");
  expect(lines.filter((line) => /^[|-] R/.test(line))).toEqual(rows);
  expect([lines[0], lines.at(-1)]).toEqual(["# P", "end"]);
  expect(page).toContain("Of 2 requirements at the levels MUST and SHOULD, tests prove 1.");
  expect(page).not.toContain("stale");
});

test("renderSecurityPage() lists each claim's tests; securityProblems() finds unmatched ones", async () => {
  const dir = await temporaryDirectory();
  await mkdir(join(dir, "docs/operations"), { recursive: true });
  const rows = ["| S-101 | Read. | stale |", "| S-102 | Write. | |"];
  await writeFile(join(dir, "docs/operations/security.md"), rows.join("\n"));
  const proving = { name: "reads", ids: ["S-101", "S-103", "R-1"] };
  const tests = ["a.test.ts", "a.test.ts", "b.test.ts"].map((file) => ({ file, ...proving }));
  expect(renderSecurityPage(dir, tests).split("\n")).toEqual([
    "| S-101 | Read. | [a.test.ts](../../a.test.ts)<br>[b.test.ts](../../b.test.ts) |",
    "| S-102 | Write. |  |",
  ]);
  expect(securityProblems(dir, tests)).toEqual([
    "docs/operations/security.md: S-102 has no test",
    "a test names S-103, which is not a claim of docs/operations/security.md",
  ]);
});

test("promiseProblems() reports promises without a test and links to missing tests", async () => {
  const dir = await temporaryDirectory();
  await mkdir(join(dir, "docs/operations"), { recursive: true });
  await writeFile(join(dir, "a.test.ts"), "");
  const reliability = [
    ["# Reliability", "This page."],
    ["## Promised", "These:", "- It works.\n- It is kept ([test](../../a.test.ts)).", "| a | b |"],
    ["## Limits", "Ends after 5 s ([test](../../gone.test.ts)).\n\n```sh\nmake\n```"],
    ["## What is not promised", "- That it is fast."],
  ];
  const security = ["# Security", "An attacker has a token.", "It is useless\n([page](kept.md))."];
  await writeFile(join(dir, "docs/operations/reliability.md"), reliability.flat().join("\n\n"));
  await writeFile(join(dir, "docs/operations/security.md"), security.join("\n\n"));
  expect(promiseProblems(dir)).toEqual([
    'docs/operations/reliability.md: no test is named by "- It works."',
    "docs/operations/reliability.md: ../../gone.test.ts does not exist",
    'docs/operations/security.md: no test is named by "It is useless ([page](kept.md))."',
  ]);
});
