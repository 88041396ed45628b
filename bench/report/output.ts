import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryRoot } from "../../e2e/support/paths.ts";
import type { Results } from "../results.ts";
import { comparisonChart } from "./comparison-chart.ts";
import { growthChart } from "./growth-chart.ts";
import { formatReport } from "./report.ts";

const docs = join(repositoryRoot, "docs");
const page = join(docs, "performance.md");

/** The results that an earlier run has written. */
export function readResults(path: string): Results {
  return JSON.parse(readFileSync(path, "utf8")) as Results;
}

/**
 * Prints the tables and writes the JSON file and the charts: into dist/bench/, with `write` into docs/
 * as well, and the tables into docs/performance.md.
 */
export function publish(results: Results, { write }: { write: boolean }): void {
  const text = formatReport(results);
  process.stdout.write(text);
  for (const dir of [join(repositoryRoot, "dist/bench"), ...(write ? [docs] : [])]) {
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, "performance.json"), `${JSON.stringify(results, undefined, 1)}\n`);
    writeFileSync(join(dir, "performance.svg"), comparisonChart(results));
    writeFileSync(join(dir, "performance-growth.svg"), growthChart(results));
  }
  if (write) writePage(text);
}

/** The tables stand between two marks; what is around them is written by hand. */
function writePage(text: string): void {
  const [before, rest] = readFileSync(page, "utf8").split("<!-- bench -->\n");
  const after = rest?.split("<!-- /bench -->")[1];
  if (after === undefined) throw new Error(`${page} lacks its <!-- bench --> marks`);
  writeFileSync(page, `${before}<!-- bench -->\n\n${text}\n<!-- /bench -->${after}`);
}
