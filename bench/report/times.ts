import { markdownTable } from "../../e2e/support/markdown.ts";
import type { CaseResult, FirstCalls, Results, Row } from "../results.ts";

/** Heading and table of a case. */
export function caseTable(result: CaseResult): string {
  const isBurst = result.rows.some(({ burst }) => burst !== undefined);
  const most = mostCalls(result);
  const table = isBurst ? bursts(result) : comparison(result);
  return `**${result.title}** (n = ${most})\n\n${table}`;
}

/** Each row against the delegates alone. */
function comparison({ rows }: CaseResult): string {
  const base = rows.find(({ id }) => id === "direct");
  const cells = (row: Row, command: "add" | "del"): string[] => {
    const { p50, p99 } = row[command];
    const over = row === base || base === undefined ? "" : overhead(p50, base[command].p50);
    return [p50.toFixed(2), p99.toFixed(2), over];
  };
  return perPod(rows, (name) => [`${name} p50`, "p99", "over delegates"], cells);
}

/** Several pods at once: all of them together against the delegates alone, and each pod from the common start. */
function bursts({ rows }: CaseResult): string {
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
): string {
  const most = mostCalls({ rows });
  return markdownTable(
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

/** Of each contender the first calls, and the mean of all ten against the delegates alone. */
export function firstCalls({ start }: Results): string {
  const mean = (times: readonly number[]): number =>
    times.reduce((sum, ms) => sum + ms, 0) / times.length;
  const base = start.find(({ id }) => id === "direct");
  const cells = (row: FirstCalls, command: "add" | "del"): string[] => [
    ...[1, 2, 3, 10].map((nth) => (row[command][nth - 1] ?? Number.NaN).toFixed(2)),
    mean(row[command]).toFixed(2),
    row === base || base === undefined ? "" : difference(mean(row[command]), mean(base[command])),
  ];
  const heads = (name: string): string[] => [
    `${name} 1st`,
    "2nd",
    "3rd",
    "10th",
    "mean of ten",
    "over delegates",
  ];
  return markdownTable(
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
