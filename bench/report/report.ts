import { wrapParagraph } from "../../e2e/support/markdown.ts";
import type { CaseResult, Growth, Results, Row } from "../results.ts";
import { table } from "./tables.ts";

/** The results as Markdown. */
export function formatReport(results: Results): string {
  return [
    wrapParagraph(
      `${results.date.slice(0, 10)}, ${results.quick ? "`QUICK=1`" : "the full run"}: ${results.machine}, ` +
        `load average before the run ${results.loadBefore.toFixed(1)}; ` +
        `records on ${results.stateFileSystem}; ${versionsOf(results)}. Times in milliseconds.`,
    ),
    ...results.cases.flatMap((each) => [
      "",
      `**${each.title}**`,
      "",
      ...comparison(each),
      ...failuresOf(each),
    ]),
    ...section("Requests to the API for one pod, ADD and DEL", requestTable(results)),
    ...section(
      "Memory of each process, in MiB: those of a call at their end, for two plugins that do nothing",
      memoryTable(results),
    ),
    ...section(
      "The disk: one ADD and one DEL of two plugins that write nothing",
      diskTable(results),
    ),
    ...section("Sizes", sizeTable(results)),
    ...(["ADD", "DEL"] as const).flatMap((command) =>
      section(
        `Where the time of one ${command} goes (ptp and macvlan, medians of \`PLEXUS_TRACE=1\`)`,
        table(
          ["phase", "ms"],
          results.phases[command].map((phase) => [phase.name, phase.median.toFixed(2)]),
        ),
      ),
    ),
    ...results.growth.flatMap((each) => section(`${each.title} (${each.unit})`, growthTable(each))),
    "",
  ].join("\n");
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ["", `**${title}**`, "", ...lines];
}

function versionsOf({ versions }: Results): string {
  return Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(", ");
}

/** Each row against the first, which is the delegates alone. */
function comparison({ rows }: CaseResult): string[] {
  const times = (name: string): string[] => [`${name} p50`, "p90", "p99", "over delegates"];
  const [base] = rows;
  const cells = (row: Row, command: "add" | "del"): string[] => {
    const { p50, p90, p99 } = row[command];
    const over = row === base ? "" : overhead(p50, base?.[command].p50 ?? 0);
    return [...[p50, p90, p99].map((ms) => ms.toFixed(2)), over];
  };
  return table(
    ["", ...times("ADD"), ...times("DEL"), "CPU per pod"],
    rows.map((row) => [
      `${row.name} (n = ${row.add.count})`,
      ...cells(row, "add"),
      ...cells(row, "del"),
      row.cpuMs === undefined ? "" : row.cpuMs.toFixed(1),
    ]),
  );
}

function failuresOf({ rows }: CaseResult): string[] {
  return rows
    .filter(({ failures }) => failures > 0)
    .flatMap(({ name, failures, add, firstFailure = "" }) => [
      "",
      wrapParagraph(
        `${name}: ${failures} of ${add.count + failures} ADDs or DELs failed. The times do not include them. ` +
          "The first error:",
      ),
      "",
      "```",
      `${firstFailure.slice(0, 200)}…`,
      "```",
    ]);
}

function overhead(own: number, base: number): string {
  return `${(own - base).toFixed(2)} (x ${(own / base).toFixed(2)})`;
}

const requestCases = ["none", "real", "five"];

function requestTable({ cases }: Results): string[] {
  const shown = cases.filter(({ id }) => requestCases.includes(id));
  const rows = shown.flatMap(({ title, rows: own }) =>
    own
      .filter(({ id }) => id !== "direct")
      .map(({ name, requests }) => {
        const sum = (pattern: RegExp): string =>
          Object.entries(requests)
            .filter(([what]) => pattern.test(what))
            .reduce((total, [, count]) => total + count, 0)
            .toFixed(1);
        const columns = [/^GET pods/, /^GET network/, /^(PATCH|PUT) pods/, /events$/, /./];
        return [`${name}: ${title}`, ...columns.map(sum)];
      }),
  );
  return table(["", "pod reads", "definition reads", "status writes", "events", "all"], rows);
}

function memoryTable({ memory }: Results): string[] {
  return table(
    ["", "peak RSS", "anonymous"],
    memory.map(({ contender, process, when, memory: own }) => [
      `${contender}: ${process}, ${when}`,
      own.peak.toFixed(1),
      own.anonymous.toFixed(1),
    ]),
  );
}

function diskTable({ disk }: Results): string[] {
  if (disk.length === 0) return [];
  return table(
    ["", "fsyncs of ADD", "bytes written", "fsyncs of DEL", "bytes written"],
    disk.map(({ name, add, del }) => [
      name,
      ...[add.fsyncs, add.bytes, del.fsyncs, del.bytes].map(String),
    ]),
  );
}

function sizeTable({ sizes }: Results): string[] {
  return table(
    ["", "MiB"],
    sizes.map(({ what, bytes }) => [what, (bytes / 2 ** 20).toFixed(1)]),
  );
}

function growthTable({ lines, along }: Growth): string[] {
  const xs = lines[0]?.points.map(([x]) => x.toLocaleString("en")) ?? [];
  return table(
    [along, ...xs],
    lines.map(({ name, points }) => [name, ...points.map(([, y]) => y.toFixed(2))]),
  );
}
