import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { replaceSection } from "../support/markdown.ts";
import { repositoryRoot } from "../support/paths.ts";
import { bundleSimulation } from "./bundle.ts";
import type { LeftOut, Simulation } from "./entry.ts";
import { mutationsReport } from "./mutation-search.ts";
import { Progress } from "./progress.ts";
import { runWorker } from "./run-worker.ts";
import type { Finding, WorkerReport } from "./worker.ts";

const { values } = parseArgs({
  options: {
    /** The first seed. @default a new one */
    seed: { type: "string" },
    /** Prints this one history. */
    print: { type: "boolean", default: false },
    /** Indices of pods and mischief that the printed history is without: `pods=0 mischief=1,2`. */
    without: { type: "string", default: "" },
    seconds: { type: "string" },
    histories: { type: "string" },
    /** Takes one safeguard after the other out, and prints what finds its absence. */
    mutations: { type: "boolean", default: false },
    /** Only of mutations whose names contain this. */
    only: { type: "string", default: "" },
    /** Puts the results of the mutations into docs/lab/simulation.md. */
    write: { type: "boolean", default: false },
    workers: { type: "string", default: String(availableParallelism()) },
  },
});

/** A processor stops when so many of its histories lack a property. */
const findingsMax = 5;

const dir = await mkdtemp(join(tmpdir(), "plexus-simulation-"));
const file = join(dir, "simulation.cjs");
try {
  await bundleSimulation(file);
  process.exitCode = await (values.mutations ? searchMutants : values.print ? print : search)();
} finally {
  await rm(dir, { recursive: true });
}

async function print(): Promise<number> {
  const { simulate, scenarioOf } = (await import(file)) as Simulation;
  const seed = Number(values.seed);
  const leftOut = parseLeftOut(values.without);
  say(JSON.stringify(scenarioOf(seed, leftOut), undefined, 1));
  const { violation, fingerprint } = await simulate(seed, leftOut, say);
  say(`fingerprint ${fingerprint}`);
  return violation === undefined ? 0 : 1;
}

async function searchMutants(): Promise<number> {
  const { lines, section, areAllFound } = await mutationsReport(values.only);
  for (const line of lines) say(line);
  const page = join(repositoryRoot, "docs/lab/simulation.md");
  if (values.write) await replaceSection(page, "mutations", section);
  return areAllFound ? 0 : 1;
}

async function search(): Promise<number> {
  const workers = Number(values.workers);
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 48));
  const histories = values.histories && Math.ceil(Number(values.histories) / workers);
  const orders = Array.from({ length: workers }, (_, index) => ({
    ...{ file, firstSeed: seed + index, step: workers, findings: findingsMax },
    ...(histories && { histories }),
    ...(values.seconds && { seconds: Number(values.seconds) }),
  }));
  const progress = new Progress(say);
  const reports = await Promise.all(
    orders.map((order, worker) =>
      runWorker(order, (news) => {
        if (typeof news === "number") progress.note(worker, news);
        else sayFinding(news);
      }),
    ),
  );
  const sum = (of: (report: WorkerReport) => number): number =>
    reports.reduce((total, report) => total + of(report), 0);
  const perSecond = Math.round(sum((r) => r.histories / r.seconds) / workers);
  const length = sum((report) => report.findings.length);
  say(
    `${sum((r) => r.histories)} histories from seed ${seed}, ${sum((r) => r.events)} events, ` +
      `${perSecond} histories a second and core; ${length} lack a property`,
  );
  return length === 0 ? 0 : 1;
}

/** At once, as a run of days may be interrupted. */
function sayFinding({ seed, violation, leftOut }: Finding): void {
  say(`seed ${seed}: "${violation.property}": ${violation.details}`);
  say(`  make simulate SEED=${seed} PRINT=1 WITHOUT="${formatLeftOut(leftOut)}"`);
}

function formatLeftOut({ pods, mischief }: LeftOut): string {
  return `pods=${pods.join()} mischief=${mischief.join()}`;
}

function parseLeftOut(text: string): LeftOut {
  const of = (key: string): number[] =>
    (new RegExp(`${key}=([\\d,]*)`).exec(text)?.[1] ?? "").split(",").filter(Boolean).map(Number);
  return { pods: of("pods"), mischief: of("mischief") };
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
