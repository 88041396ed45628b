import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import {
  problemsOf,
  renderTable,
  type Specification,
  specifications,
} from "./conformance/specifications.ts";
import { listTests, provingTests, strayIdentifiers } from "./conformance/test-names.ts";

/**
 * Writes docs/conformance-*.md: which tests prove which requirement of the specifications. Fails
 * when a MUST or SHOULD has neither a test nor an explanation, or a test names what is no
 * requirement. With --check it writes nothing, and fails when a page is not what it would write.
 */
const { values } = parseArgs({ options: { check: { type: "boolean", default: false } } });
const root = join(import.meta.dirname, "..");
const listed = listTests(root);
const tests = provingTests(root, listed);
const problems = [
  ...strayIdentifiers(root, listed),
  ...specifications.flatMap((specification) => problemsOf(root, specification, tests)),
  ...specifications.flatMap((specification) => publish(specification)),
];
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exit(1);

function publish(specification: Specification): string[] {
  const path = join(root, specification.page);
  const table = renderTable(root, specification, tests);
  if (!values.check) writeFileSync(path, table);
  else if (read(path) !== table) return [`${specification.page} is stale: run \`make docs\``];
  return [];
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
