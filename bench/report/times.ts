import type { CaseResult, FirstCalls, Results, Row } from "../results.ts";
import { table } from "./tables.ts";

/** Heading and table of a case. */
export function caseTable(result: CaseResult): string[] {
  const isBurst = result.rows.some(({ burst }) => burst !== undefined);
  const most = mostCalls(result);
  return [
    `**${result.title}** (n = ${most})`,
    "",
    ...(isBurst ? bursts(result) : comparison(result)),
  ];
}

/** Each row against the delegates alone and against the floor. */
function comparison({ rows }: CaseResult): string[] {
  const bases = [
    { id: "direct", title: "over delegates", over: overhead },
    { id: "floor", title: "over floor", over: difference },
  ].flatMap((base) => rows.filter(({ id }) => id === base.id).map((row) => ({ ...base, row })));
  const heads = (name: string): string[] => [
    `${name} p50`,
    "p99",
    ...bases.map(({ title }) => title),
  ];
  const cells = (row: Row, command: "add" | "del"): string[] => {
    const { p50, p99 } = row[command];
    const overs = bases.map((base) =>
      row.id === "direct" || row === base.row ? "" : base.over(p50, base.row[command].p50),
    );
    return [...[p50, p99].map((ms) => ms.toFixed(2)), ...overs];
  };
  return perPod(rows, heads, cells);
}

/** Several pods at once: all of them together against the delegates alone, and each pod from the common start. */
function bursts({ rows }: CaseResult): string[] {
  const base = rows.find(({ id }) => id === "direct");
  const cells = (row: Row, command: "add" | "del"): string[] => {
    const whole = row.burst?.[command];
    const alone = row === base ? undefined : base?.burst?.[command];
    const against =
      whole === undefined || alone === undefined ? "" : `×${(whole / alone).toFixed(2)}`;
    const { p50, p99 } = row[command];
    return [whole?.toFixed(0) ?? "", against, ...[p50, p99].map((ms) => ms.toFixed(0))];
  };
  const heads = (name: string): string[] => [`${name} of all`, "to delegates", "p50", "p99"];
  return perPod(rows, heads, cells);
}

function perPod(
  rows: readonly Row[],
  heads: (command: string) => string[],
  cells: (row: Row, command: "add" | "del") => string[],
): string[] {
  const most = mostCalls({ rows });
  return table(
    ["", ...heads("ADD"), ...heads("DEL"), "CPU per pod"],
    rows.map((row) => [
      row.add.count === most ? row.name : `${row.name} (n = ${row.add.count})`,
      ...cells(row, "add"),
      ...cells(row, "del"),
      row.cpuMs?.toFixed(1) ?? "",
    ]),
  );
}

/** The calls of a contender whose calls all succeeded. */
function mostCalls({ rows }: Pick<CaseResult, "rows">): number {
  return Math.max(...rows.map(({ add }) => add.count));
}

/** Of each contender the first calls, and all ten of them against the delegates alone and the floor. */
export function firstCalls({ start }: Results): string[] {
  const shown = [1, 2, 3, 10];
  const mean = (times: readonly number[]): number =>
    times.reduce((sum, ms) => sum + ms, 0) / times.length;
  const bases = start.filter(({ id }) => ["direct", "floor"].includes(id));
  const cells = (row: FirstCalls, command: "add" | "del"): string[] => [
    ...shown.map((nth) => (row[command][nth - 1] ?? Number.NaN).toFixed(2)),
    mean(row[command]).toFixed(2),
    ...bases.map((base) =>
      row.id === "direct" || row === base
        ? ""
        : difference(mean(row[command]), mean(base[command])),
    ),
  ];
  const heads = (name: string): string[] => [
    `${name} 1st`,
    "2nd",
    "3rd",
    "10th",
    "mean of ten",
    ...bases.map(({ id }) => (id === "direct" ? "over delegates" : "over floor")),
  ];
  return table(
    ["", ...heads("ADD"), ...heads("DEL")],
    start.map((row) => [row.name, ...cells(row, "add"), ...cells(row, "del")]),
  );
}

function overhead(own: number, base: number): string {
  return `${difference(own, base)} (×${(own / base).toFixed(2)})`;
}

function difference(own: number, base: number): string {
  return (own - base).toFixed(2);
}
