import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { repositoryRoot } from "../support/paths.ts";
import { type Moment, moments } from "./fault.ts";
import type { Completed } from "./pool.ts";
import type { RunResult } from "./run.ts";
import { parseScenario } from "./scenario.ts";

/** What all runs of all contenders found. */
export interface MatrixReport {
  /** Which runs these were, so that they can be made again. */
  readonly selection: string;
  readonly contenders: {
    readonly name: string;
    readonly completed: readonly Completed[];
    readonly leaking: readonly Completed[];
  }[];
}

/** One run on a line, with what it left below it. */
export function describeRun(contender: string, { scenario, result }: Completed): string {
  const { happened, add, dels, leaks, milliseconds } = result;
  const fault = happened.every((each) => each) ? "" : " (a fault was not reached)";
  const head = `${contender}: ${leaks.length > 0 ? "LEFT" : "ok"} "${scenario}"${fault}`;
  const calls = `  ${Math.round(milliseconds)} ms; ADD: ${add}; DEL: ${dels.join(" | ")}`;
  return [head, calls, ...leaks.map((leak) => `    ${leak}`)].join("\n");
}

/** The figures of all contenders, for the terminal. */
export function formatSummary({ selection, contenders }: MatrixReport): string {
  return contenders
    .map(({ name, completed, leaking }) => {
      const count = completed.length;
      const reached = completed.filter((c) => c.result.happened.some((each) => each)).length;
      const mean = completed.reduce((sum, c) => sum + c.result.milliseconds, 0) / (count || 1);
      const unanswered = completed.filter(({ result }) => hasUnanswered(result)).length;
      const lines = leaking.map(({ scenario }) => `  make chaos SCENARIO="${scenario}"`);
      const head = `${name}: ${selection}: ${leaking.length} of ${count} runs left something`;
      return [
        `${head}; in ${reached} a fault happened, in ${unanswered} a call was not answered; ${Math.round(mean)} ms each`,
        ...lines,
      ].join("\n");
    })
    .join("\n");
}

/** Whether the runtime had to give up on a call that no fault had stopped. */
function hasUnanswered({ add, dels }: RunResult): boolean {
  return [add, ...dels].includes("no answer");
}

interface Cell {
  runs: number;
  leaking: number;
}

/** `faults × steps` of one contender as Markdown: in each cell `runs` or `runs / leaking`. */
function matrixTable(completed: readonly Completed[]): string {
  const columns = (["ADD", "DEL"] as const).flatMap((operation) =>
    moments.map((moment) => ({ operation, moment })),
  );
  const rows = new Map<string, Map<string, Cell>>();
  for (const { fault, leaking } of faultsThatHappened(completed)) {
    const row = getOr(rows, `${fault.target} ${fault.action}`, () => new Map<string, Cell>());
    const cell = getOr(row, `${fault.operation} ${fault.step.moment}`, newCell);
    cell.runs++;
    if (leaking) cell.leaking++;
  }
  const head = [
    "fault",
    ...columns.map(({ operation, moment }) => `${operation} ${label(moment)}`),
  ];
  const body = [...rows]
    .toSorted()
    .map(([name, cells]) => [
      name,
      ...columns.map((c) => cellText(cells.get(`${c.operation} ${c.moment}`))),
    ]);
  return markdown(head, body);
}

/** Faults against contenders: `runs / leaking`. */
function contenderTable(report: MatrixReport): string {
  const rows = new Map<string, Map<string, Cell>>();
  for (const { name, completed } of report.contenders) {
    for (const { fault, leaking } of faultsThatHappened(completed)) {
      const row = getOr(rows, `${fault.target} ${fault.action}`, () => new Map<string, Cell>());
      const cell = getOr(row, name, newCell);
      cell.runs++;
      if (leaking) cell.leaking++;
    }
  }
  const names = report.contenders.map((c) => c.name);
  const total = report.contenders.map((c) => `${c.completed.length} / ${c.leaking.length}`);
  const body = [...rows]
    .toSorted()
    .map(([fault, cells]) => [fault, ...names.map((name) => pair(cells.get(name)))]);
  const unanswered = report.contenders.map(
    (c) => `${c.completed.filter(({ result }) => hasUnanswered(result)).length}`,
  );
  return markdown(
    ["fault", ...names],
    [...body, ["all runs", ...total], ["runs with a call that was never answered", ...unanswered]],
  );
}

/** Puts the tables between their markers in docs/reliability.md. */
export async function writeReport(report: MatrixReport): Promise<void> {
  const path = join(repositoryRoot, "docs/reliability.md");
  const [own] = report.contenders;
  const tables = [
    `${report.selection[0]?.toUpperCase()}${report.selection.slice(1)}.`,
    "",
    contenderTable(report),
    "",
    `${own?.name}, by step:`,
    "",
    matrixTable(own?.completed ?? []),
  ].join("\n");
  const text = await readFile(path, "utf8");
  const between = /(<!-- matrix -->)[\s\S]*(<!-- end of matrix -->)/;
  await writeFile(
    path,
    text.replace(between, (_, from, to) => `${from}\n\n${tables}\n\n${to}`),
  );
}

function faultsThatHappened(
  completed: readonly Completed[],
): { fault: ReturnType<typeof parseScenario>["faults"][number]; leaking: boolean }[] {
  return completed.flatMap(({ scenario, result }) =>
    parseScenario(scenario)
      .faults.filter((_, n) => result.happened[n])
      .map((fault) => ({ fault, leaking: result.leaks.length > 0 })),
  );
}

function label(moment: Moment): string {
  return moment === "ipam" ? "in IPAM" : moment === "ipam-done" ? "IPAM done" : moment;
}

function newCell(): Cell {
  return { runs: 0, leaking: 0 };
}

function cellText(cell: Cell | undefined): string {
  if (cell === undefined) return "";
  return cell.leaking === 0 ? `${cell.runs}` : `${cell.runs} / **${cell.leaking}**`;
}

function pair(cell: Cell | undefined): string {
  return cell === undefined ? "" : `${cell.runs} / ${cell.leaking}`;
}

function getOr<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key) ?? make();
  map.set(key, known);
  return known;
}

function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map((_, n) => (n === 0 ? "---" : "---:"))), ...rows.map(line)].join(
    "\n",
  );
}
