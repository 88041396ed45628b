import { join } from "node:path";
import { markdownTable, replaceSection } from "../support/markdown.ts";
import { repositoryRoot } from "../support/paths.ts";
import { type Moment, moments } from "./fault.ts";
import type { Completed } from "./pool.ts";
import { hasUnanswered, isLeaking, leavesNetwork, type MatrixReport } from "./results.ts";
import { parseScenario } from "./scenario.ts";

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
    .map(({ name, completed }) => {
      const count = completed.length;
      const leaking = completed.filter(isLeaking);
      const reached = completed.filter((c) => c.result.happened.some((each) => each)).length;
      const mean = completed.reduce((sum, c) => sum + c.result.milliseconds, 0) / (count || 1);
      const unanswered = completed.filter(hasUnanswered).length;
      const lines = leaking.map(({ scenario }) => `  make chaos SCENARIO="${scenario}"`);
      const head = `${name}: ${selection}: ${leaking.length} of ${count} runs left something`;
      return [
        `${head}; in ${reached} a fault happened, in ${unanswered} a call was not answered; ${Math.round(mean)} ms each`,
        ...lines,
      ].join("\n");
    })
    .join("\n");
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
  return markdownTable(head, body);
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
  const row = (
    name: string,
    count: (completed: readonly Completed[]) => number | string,
  ): string[] => [name, ...report.contenders.map(({ completed }) => `${count(completed)}`)];
  const body = [...rows]
    .toSorted()
    .map(([fault, cells]) => [fault, ...names.map((name) => pair(cells.get(name)))]);
  return markdownTable(
    ["fault", ...names],
    [
      ...body,
      row("all runs", (all) => `${all.length} / ${all.filter(isLeaking).length}`),
      row("runs that left more than its own files", (all) => all.filter(leavesNetwork).length),
      row("runs with a call that was never answered", (all) => all.filter(hasUnanswered).length),
    ],
  );
}

/** Puts the tables between their markers in docs/operations/reliability.md. */
export async function writeReport(report: MatrixReport): Promise<void> {
  const path = join(repositoryRoot, "docs/operations/reliability.md");
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
  await replaceSection(path, "matrix", tables);
}

function faultsThatHappened(
  completed: readonly Completed[],
): { fault: ReturnType<typeof parseScenario>["faults"][number]; leaking: boolean }[] {
  return completed.flatMap((run) =>
    parseScenario(run.scenario)
      .faults.filter((_, n) => run.result.happened[n])
      .map((fault) => ({ fault, leaking: isLeaking(run) })),
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
