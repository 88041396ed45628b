import { parseArgs } from "node:util";
import { runMatrix } from "./matrix.ts";
import { formatSummary } from "./report.ts";

/**
 * The fault matrix: `make chaos` (docs/reliability.md). --runs random runs of --seed, or --fixed of
 * the fixed ones, or the one --scenario; --write puts the tables into docs/reliability.md.
 */
const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    runs: { type: "string" },
    fixed: { type: "string" },
    scenario: { type: "string" },
    workers: { type: "string", default: "2" },
    write: { type: "boolean", default: false },
    verbose: { type: "boolean", default: false },
  },
});

const report = await runMatrix({
  ...(values.scenario === undefined ? {} : { scenario: values.scenario }),
  ...(values.fixed === undefined ? {} : { fixed: Number(values.fixed) }),
  seed: values.seed ?? String(Math.floor(Math.random() * 1e9)),
  runs: Number(values.runs ?? 1000),
  workers: Number(values.workers),
  verbose: values.verbose,
  write: values.write,
});
console.log(formatSummary(report));
process.exitCode = report.contenders.some((c) => c.name === "Plexus" && c.leaking.length > 0)
  ? 1
  : 0;
