import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { repositoryRoot } from "../support/paths.ts";
import { type MatrixOptions, runMatrix } from "./matrix.ts";
import { formatSummary, writeReport } from "./report.ts";
import { isLeaking, type MatrixReport, mergeReports } from "./results.ts";

/**
 * The fault matrix: `make chaos` (docs/operations/reliability.md). --runs random runs of --seed, or --fixed of
 * the fixed ones, or the one --scenario; SIGINT ends it early. What was found is in .cache/chaos.json, or --out; --write
 * puts it into docs/operations/reliability.md. A long matrix can be made in parts, of --skip and --only a contender, and read --from all of them.
 */
const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    runs: { type: "string", default: "1000" },
    fixed: { type: "string" },
    scenario: { type: "string" },
    workers: { type: "string", default: "2" },
    skip: { type: "string", default: "0" },
    only: { type: "string" },
    out: { type: "string", default: join(repositoryRoot, ".cache/chaos.json") },
    from: { type: "string", multiple: true },
    write: { type: "boolean", default: false },
    verbose: { type: "boolean", default: false },
  },
});

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());

async function run(): Promise<MatrixReport> {
  const seed = values.seed ?? String(Math.floor(Math.random() * 1e9));
  const options: MatrixOptions = {
    ...(values.scenario === undefined ? {} : { scenario: values.scenario }),
    ...(values.fixed === undefined ? {} : { fixed: Number(values.fixed) }),
    seed,
    runs: Number(values.runs),
    skip: Number(values.skip),
    ...(values.only === undefined ? {} : { only: values.only }),
    workers: Number(values.workers),
    verbose: values.verbose,
    stop: stop.signal,
  };
  if (values.scenario === undefined && values.fixed === undefined) console.log(`SEED=${seed}`);
  const report = await runMatrix(options);
  mkdirSync(dirname(values.out), { recursive: true });
  writeFileSync(values.out, JSON.stringify(report));
  return report;
}

function read(path: string): MatrixReport {
  return JSON.parse(readFileSync(path, "utf8"));
}

const report = values.from === undefined ? await run() : mergeReports(values.from.map(read));
if (values.write) await writeReport(report);
console.log(formatSummary(report));
const own = report.contenders.find(({ name }) => name === "Plexus");
process.exitCode = own?.completed.some(isLeaking) === true ? 1 : 0;
