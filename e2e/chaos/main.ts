import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { repositoryRoot } from "../support/paths.ts";
import { type MatrixOptions, runMatrix } from "./matrix.ts";
import { formatSummary, type MatrixReport, writeReport } from "./report.ts";

/**
 * The fault matrix: `make chaos` (docs/reliability.md). --runs random runs of --seed, or --fixed of
 * the fixed ones, or the one --scenario; SIGINT ends it early. What was found is in .cache/chaos.json; --write puts it into
 * docs/reliability.md, with --from that of an earlier run.
 */
const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    runs: { type: "string", default: "1000" },
    fixed: { type: "string" },
    scenario: { type: "string" },
    workers: { type: "string", default: "2" },
    from: { type: "string" },
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
    workers: Number(values.workers),
    verbose: values.verbose,
    stop: stop.signal,
  };
  if (values.scenario === undefined && values.fixed === undefined) console.log(`SEED=${seed}`);
  const report = await runMatrix(options);
  mkdirSync(join(repositoryRoot, ".cache"), { recursive: true });
  writeFileSync(join(repositoryRoot, ".cache/chaos.json"), JSON.stringify(report));
  return report;
}

const report: MatrixReport =
  values.from === undefined ? await run() : JSON.parse(readFileSync(values.from, "utf8"));
if (values.write) await writeReport(report);
console.log(formatSummary(report));
const [own] = report.contenders;
process.exitCode = own !== undefined && own.leaking.length > 0 ? 1 : 0;
