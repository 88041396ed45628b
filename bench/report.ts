import { readFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import type { Measured, Phase } from "./measure.ts";

/** All that one run of the benchmark found. */
export interface Report {
  readonly tables: readonly { readonly title: string; readonly rows: readonly Measured[] }[];
  readonly phases: Readonly<Record<"ADD" | "DEL", readonly Phase[]>>;
  readonly memory: readonly {
    readonly when: string;
    readonly now: number;
    readonly peak: number;
  }[];
  /** File system of the state directory: it is what fsync costs. */
  readonly stateFileSystem: string;
}

/** The report as Markdown. */
export function formatReport(report: Report): string {
  return [
    `Machine: ${machine()}; records on ${report.stateFileSystem}. Milliseconds.`,
    ...report.tables.flatMap((table) => ["", `**${table.title}**`, "", ...comparison(table.rows)]),
    "",
    ...(["ADD", "DEL"] as const).flatMap((command) => [
      `**Where the time of one ${command} goes** (ptp and macvlan, medians of \`PLEXUS_TRACE=1\`)`,
      "",
      ...markdown(
        ["phase", "ms"],
        report.phases[command].map((p) => [p.name, p.median.toFixed(2)]),
      ),
      "",
    ]),
    "**Memory of plexusd** (resident, MiB)",
    "",
    ...markdown(
      ["", "now", "peak"],
      report.memory.map((m) => [m.when, m.now.toFixed(0), m.peak.toFixed(0)]),
    ),
    "",
  ].join("\n");
}

/** Each row against the first, which is the delegates alone. */
function comparison(rows: readonly Measured[]): string[] {
  const [base] = rows;
  const head = [
    "",
    "ADD p50",
    "p90",
    "p99",
    "DEL p50",
    "p90",
    "p99",
    "ADD over delegates",
    "DEL over delegates",
  ];
  return markdown(
    head,
    rows.map((row) => [
      `${row.name} (n = ${row.add.count})`,
      ...[row.add, row.del].flatMap((s) => [s.p50, s.p90, s.p99].map((ms) => ms.toFixed(2))),
      ...(["add", "del"] as const).map((command) =>
        overhead(row[command].p50, base?.[command].p50 ?? 0, row === base),
      ),
    ]),
  );
}

function overhead(own: number, base: number, isBase: boolean): string {
  return isBase ? "" : `${(own - base).toFixed(2)} (x ${(own / base).toFixed(2)})`;
}

function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const rule = line(head.map((_, n) => (n === 0 ? "---" : "---:")));
  return [line(head), rule, ...rows.map(line)];
}

function machine(): string {
  const model =
    /^model name\s*: (.*)$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1] ??
    "unknown processor";
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} cores of ${model}, ${memory} GiB, Linux ${release()}, Node ${process.version}`;
}
