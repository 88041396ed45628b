import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { replaceSection } from "../../e2e/support/markdown.ts";
import { repositoryRoot } from "../../e2e/support/paths.ts";
import type { Frame, Results } from "../results.ts";
import { callChart } from "./call-chart.ts";
import { comparisonChart } from "./comparison-chart.ts";
import { flameChart } from "./flame-chart.ts";
import { growthChart } from "./growth-chart.ts";
import { formatReport, pageReport } from "./report.ts";

const docs = join(repositoryRoot, "docs/operations");

/** The results that an earlier run has written. */
export function readResults(path: string): Results {
  return JSON.parse(readFileSync(path, "utf8")) as Results;
}

/**
 * Prints the tables and writes the results and the charts to dist/bench/. With `write` the results also
 * go to bench/, charts and tables to docs/operations/.
 * @throws Error when a part of the run is to be written there
 */
export async function publish(results: Results, { write }: { write: boolean }): Promise<void> {
  if (write && isPartial(results)) throw new Error("a run with BENCH_CASES cannot be --written");
  console.log(formatReport(results));
  const built = join(repositoryRoot, "dist/bench");
  mkdirSync(built, { recursive: true });
  const folders = [{ data: built, charts: built }];
  if (write) folders.push({ data: join(repositoryRoot, "bench"), charts: docs });
  for (const { data, charts } of folders) {
    writeFileSync(join(data, "performance.json"), `${JSON.stringify(results, undefined, 1)}\n`);
    if (results.traces.ADD !== undefined)
      writeFileSync(join(charts, "performance-call.svg"), callChart(results));
    writeFlames(results, charts);
    if (isPartial(results)) continue;
    writeFileSync(join(charts, "performance.svg"), comparisonChart(results));
    writeFileSync(join(charts, "performance-growth.svg"), growthChart(results));
  }
  if (write) await replaceSection(join(docs, "performance.md"), "bench", pageReport(results));
}

function writeFlames({ profile, standaloneProfile }: Results, folder: string): void {
  const write = (name: string, frame: Frame | undefined, of: string): void => {
    if (frame !== undefined) writeFileSync(join(folder, name), flameChart(frame, of));
  };
  write("performance-flame.svg", profile, "plexusd's main thread");
  write("performance-flame-standalone.svg", standaloneProfile, "plexus-standalone");
}

/** True of a run with BENCH_CASES: the charts need every part. */
function isPartial({ growth, sizes }: Results): boolean {
  return growth.length === 0 || sizes.length === 0;
}
