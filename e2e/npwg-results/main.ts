import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { replaceSection } from "../support/markdown.ts";
import { repositoryRoot } from "../support/paths.ts";
import { allColumns } from "./implementations.ts";
import { type Column, failureList, resultTables } from "./page.ts";
import { runSuite } from "./run-suite.ts";

/**
 * Runs npwg-conformance on Plexus and Multus and compares the results with docs/reference/conformance-npwg.md;
 * `--write` updates the page. Fails if Plexus fails a requirement that is not a decision, or if a result differs.
 */
const page = join(repositoryRoot, "docs/reference/conformance-npwg.md");

/** Where Plexus decided against the standard's text, and why. */
const decisions: Readonly<Record<string, string>> = {
  "N-4.1.2.1.3b":
    "an empty list counts as absent, as in Multus, so that its pods keep their networks.",
  "N-4.1.2.1.4b": "8-byte addresses (EUI-64) are accepted, as in Multus.",
  "N-4.1.2.1.7b":
    "an empty list counts as absent, as in Multus, so that its pods keep their networks.",
  "N-4.1.2.1.8b":
    "an empty map and limits of 0 count as absent, as in Multus, so that its pods keep their networks. " +
    "Go clients write all four limits.",
};

const { values } = parseArgs({ options: { write: { type: "boolean", default: false } } });
const dir = await mkdtemp(join(tmpdir(), "npwg-results-"));
try {
  const columns = await runColumns();
  const [tables, failures] = [resultTables(columns), failureList(columns, decisions)];
  if (values.write) {
    await replaceSection(page, "results", tables);
    await replaceSection(page, "failures", failures);
  } else if (!(await readFile(page, "utf8")).includes(tables)) {
    fail(`the results differ from ${page}; WRITE=1 updates it:\n\n${tables}\n\n${failures}`);
  }
  for (const problem of problemsOfPlexus(columns)) fail(problem);
} finally {
  await rm(dir, { recursive: true, force: true });
}

/** Two implementations at a time, because this keeps two processors busy. */
async function runColumns(): Promise<Column[]> {
  const waiting = await allColumns();
  const done = new Map<string, Column>();
  const ids = waiting.map(({ id }) => id);
  const runNext = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { id, file } = next;
      const started = Date.now();
      const { exitCode, stderr, findings } = await runSuite({ file, dir: join(dir, id) });
      if (exitCode !== 0 && exitCode !== 1) throw new Error(`${id}: ${stderr}`);
      const { name, version } = file as { name: string; version: string };
      const title = id.startsWith("multus") ? name.replace("Multus", `Multus ${version}`) : name;
      const failed = findings.filter(({ verdict }) => verdict === "failed").length;
      const seconds = Math.round((Date.now() - started) / 1000);
      console.log(`${title}: ${failed} of ${findings.length} requirements failed (${seconds} s)`);
      done.set(id, { name: title, findings });
    }
  };
  await Promise.all([runNext(), runNext()]);
  return ids.flatMap((id) => done.get(id) ?? []);
}

function problemsOfPlexus(columns: readonly Column[]): string[] {
  return columns
    .filter(({ name }) => name.startsWith("Plexus"))
    .flatMap(({ name, findings }) => findings.map((finding) => ({ name, ...finding })))
    .filter(({ id, verdict }) => verdict === "failed" && decisions[id] === undefined)
    .map(({ name, id, reason }) => `${name} fails ${id}: ${reason}`);
}

function fail(problem: string): void {
  console.error(problem);
  process.exitCode = 1;
}
