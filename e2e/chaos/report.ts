import { join } from "node:path";
import { markdownTable, replaceSection } from "../support/markdown.ts";
import { repositoryRoot } from "../support/paths.ts";
import type { Fault } from "./fault.ts";
import type { RunResult } from "./run.ts";
import { formatScenario, type Scenario } from "./scenario.ts";

/** One run of the matrix. */
export interface Run {
  readonly scenario: Scenario;
  readonly result: RunResult;
}

/** What the runs of a contender found. */
export interface ContenderRuns {
  readonly name: string;
  readonly runs: readonly Run[];
}

/** Whether the run left something. */
export function isLeaking({ result }: Run): boolean {
  return result.leaks.length > 0;
}

/** Whether it left more than files that the contender itself keeps: addresses, links, rules, processes, a DEL that never succeeded. */
function leavesNetwork({ result }: Run): boolean {
  return result.leaks.some((leak) => !leak.startsWith("+ files: /run/chaos/disk/"));
}

/** Whether the runtime had to give up on a call that no fault had stopped. */
export function hasUnanswered({ result: { add, dels } }: Run): boolean {
  return [add, ...dels].includes("no answer");
}

/** One run on a line, with what it left below it. */
export function describeRun(contender: string, { scenario, result }: Run): string {
  const { happened, add, dels, leaks, milliseconds } = result;
  const fault = happened.every((each) => each) ? "" : " (a fault was not reached)";
  const state = leaks.length > 0 ? "LEFT" : "ok";
  const head = `${contender}: ${state} "${formatScenario(scenario)}"${fault}`;
  const calls = `  ${Math.round(milliseconds)} ms; ADD: ${add}; DEL: ${dels.join(" | ")}`;
  return [head, calls, ...leaks.map((leak) => `    ${leak}`)].join("\n");
}

/** The figures of all contenders, for the terminal. */
export function formatSummary(found: readonly ContenderRuns[]): string {
  const summaries = found.map(({ name, runs }) => {
    const leaking = runs.filter(isLeaking);
    const reached = runs.filter(({ result }) => result.happened.some((each) => each)).length;
    const mean = runs.reduce((sum, { result }) => sum + result.milliseconds, 0) / runs.length;
    const head = `${name}: ${leaking.length} of ${runs.length} runs left something`;
    const unanswered = runs.filter(hasUnanswered).length;
    return [
      `${head}; in ${reached} a fault happened, in ${unanswered} a call was not answered; ${Math.round(mean)} ms each`,
      ...leaking.map(({ scenario }) => `  make chaos SCENARIO="${formatScenario(scenario)}"`),
    ];
  });
  return summaries.flat().join("\n");
}

/** Puts the table between its markers in docs/operations/reliability.md. */
export async function writeReport(
  selection: string,
  found: readonly ContenderRuns[],
): Promise<void> {
  const path = join(repositoryRoot, "docs/operations/reliability.md");
  const title = `${selection[0]?.toUpperCase()}${selection.slice(1)}.`;
  await replaceSection(path, "matrix", `${title}\n\n${contenderTable(found)}`);
}

/** Faults against contenders: `runs / leaking`. */
function contenderTable(found: readonly ContenderRuns[]): string {
  const names = found.map(({ name }) => name);
  const faults = found.flatMap(({ name, runs }) =>
    faultsThatHappened(runs).map((each) => ({ ...each, column: name })),
  );
  const cell = ({ runs, leaking }: Cell): string => (runs === 0 ? "" : `${runs}/${leaking}`);
  const row = (name: string, count: (runs: readonly Run[]) => number | string): string[] => [
    name,
    ...found.map(({ runs }) => `${count(runs)}`),
  ];
  const sums = [
    row("all runs", (runs) => `${runs.length}/${runs.filter(isLeaking).length}`),
    row("runs that left more than its own files", (runs) => runs.filter(leavesNetwork).length),
    row("runs with a call that was never answered", (runs) => runs.filter(hasUnanswered).length),
  ];
  return markdownTable(["fault", ...names], [...countRows(faults, names, cell), ...sums]);
}

interface HappenedFault {
  readonly fault: Fault;
  readonly leaking: boolean;
}

function faultsThatHappened(runs: readonly Run[]): HappenedFault[] {
  return runs.flatMap((run) =>
    run.scenario.faults
      .filter((_, n) => run.result.happened[n])
      .map((fault) => ({ fault, leaking: isLeaking(run) })),
  );
}

interface Cell {
  readonly runs: number;
  readonly leaking: number;
}

/** A row for each kind of fault. */
function countRows(
  faults: readonly (HappenedFault & { readonly column: string })[],
  columns: readonly string[],
  text: (cell: Cell) => string,
): string[][] {
  const rows = Map.groupBy(faults, ({ fault }) => `${fault.target} ${fault.action}`);
  return [...rows].toSorted().map(([name, ofKind]) => {
    const cells = columns.map((column) => {
      const here = ofKind.filter((each) => each.column === column);
      return text({ runs: here.length, leaking: here.filter(({ leaking }) => leaking).length });
    });
    return [name, ...cells];
  });
}
