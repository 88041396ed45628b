import { parseArgs } from "node:util";
import { faultKinds } from "./fault.ts";
import { makeBuilds } from "./lab/builds.ts";
import { runMatrix } from "./matrix.ts";
import { formatSummary, isLeaking, writeReport } from "./report.ts";
import { parseScenario, randomScenario } from "./scenario.ts";

/**
 * The fault matrix: `make chaos` (docs/operations/reliability.md). --runs random runs of --seed, or the one --scenario;
 * SIGINT ends it early. --write puts what was found into docs/operations/reliability.md.
 */
const { values } = parseArgs({
  options: {
    seed: { type: "string", default: String(Math.floor(Math.random() * 1e9)) },
    runs: { type: "string", default: "1000" },
    scenario: { type: "string" },
    workers: { type: "string", default: "2" },
    write: { type: "boolean", default: false },
  },
});
const { seed, scenario } = values;

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());

const numbers = Array.from({ length: Number(values.runs) }, (_, n) => n);
const scenarios =
  scenario === undefined
    ? numbers.map((n) => randomScenario(`${seed}:${n}`, faultKinds))
    : [parseScenario(scenario)];
const selection =
  scenario === undefined ? `random runs of SEED=${seed}` : `the scenario "${scenario}"`;
console.log(selection);
await using builds = await makeBuilds();
const found = await runMatrix(scenarios, {
  builds,
  workers: Number(values.workers),
  stop: stop.signal,
  print: console.log,
});
if (values.write) await writeReport(selection, found);
console.log(formatSummary(found));
process.exitCode = found[0]?.runs.some(isLeaking) === true ? 1 : 0;
