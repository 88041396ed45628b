import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { promiseProblems } from "./conformance/promises.ts";
import {
  renderSecurityPage,
  scenarioTests,
  securityPage,
  securityProblems,
} from "./conformance/security.ts";
import { problemsOf, renderPage, specifications } from "./conformance/specifications.ts";
import { listTests, provingTests, strayIdentifiers } from "./conformance/test-names.ts";

/**
 * Writes the tests of each requirement into docs/reference/conformance-*.md, and the tests' column of
 * docs/operations/security.md. With --check it writes nothing, and fails if a page is stale. It also fails if
 * - a requirement has neither a test nor an explanation,
 * - a claim of the security page or a promise of docs/operations/reliability.md has no test,
 * - a test names an unknown requirement.
 */
const { values } = parseArgs({ options: { check: { type: "boolean", default: false } } });
const root = join(import.meta.dirname, "..");
const listed = listTests(root);
const tests = provingTests(root, listed);
const securityTests = [...tests, ...scenarioTests(root)];
const problems = [
  ...strayIdentifiers(root, listed),
  ...specifications.flatMap((each) => problemsOf(root, each, tests)),
  ...specifications.flatMap((each) => publish(each.page, renderPage(root, each, tests))),
  ...securityProblems(root, securityTests),
  ...promiseProblems(root),
  ...publish(securityPage, renderSecurityPage(root, securityTests)),
];
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exit(1);

function publish(page: string, text: string): string[] {
  const path = join(root, page);
  if (!values.check) writeFileSync(path, text);
  else if (readFileSync(path, "utf8") !== text) return [`${page} is stale: run \`make docs\``];
  return [];
}
