import { markdownTable, wrapParagraph } from "../../e2e/support/markdown.ts";
import type { CaseResult, Growth, Results } from "../results.ts";
import { countTable, diskTable, memoryTable, requestTable, sizeTable } from "./costs.ts";
import { ownerTable } from "./flame-chart.ts";
import { caseTable, firstCalls } from "./times.ts";

/** Contenders that the page has in its charts alone. */
const ofCharts = new Set([
  ...["floor", "floor with duties", "floor of standalone"],
  "Plexus, status after",
]);
/** Cases that the page leaves out: without real plugins, or with the result of another one. */
const leftOut = new Set(["noop", "real-pause", "crowd", "real-100"]);

/** The results as Markdown, for the page. */
export function pageReport(results: Results): string {
  const rowsOf = <T extends { readonly name: string }>(rows: readonly T[]): T[] =>
    rows.filter(({ name }) => !ofCharts.has(name));
  return measuredTables({
    ...results,
    cases: results.cases
      .filter(({ id }) => !leftOut.has(id))
      .map((each) => ({ ...each, rows: rowsOf(each.rows) })),
    disk: rowsOf(results.disk),
    memory: results.memory.filter(({ contender }) => !ofCharts.has(contender)),
  });
}

/** All results as Markdown, for the terminal. */
export function formatReport(results: Results): string {
  return `${measuredTables(results)}\n${furtherTables(results)}`;
}

function measuredTables(results: Results): string {
  return [
    wrapParagraph(
      `${results.date.slice(0, 10)}, ${effortOf(results)}: ${results.machine}, ` +
        `load average before the run ${results.loadBefore.toFixed(1)}; ` +
        `records on ${results.stateFileSystem}; ${versionsOf(results)}. Times in milliseconds.`,
    ),
    ...results.cases.flatMap((each) => ["", caseTable(each), ...failuresOf(each)]),
    ...section(
      "API requests for one pod: reads of pods + of definitions + status writes + events",
      requestTable(results),
    ),
    ...section(
      "Memory of each process, in MiB: those of a call at their end, for two plugins that do nothing",
      memoryTable(results),
    ),
    ...section(
      "The disk: one ADD and one DEL of two plugins that write nothing",
      diskTable(results),
    ),
    ...section("Sizes", sizeTable(results)),
  ].join("\n");
}

/** What the charts show, or only developers of Plexus compare. */
function furtherTables(results: Results): string {
  return [
    ...section(
      "The first ten calls after the start of the daemon (ptp and macvlan, medians)",
      firstCalls(results),
    ),
    ...section(
      "What a call of Plexus with two plugins comes to, whatever the machine",
      countTable(results),
    ),
    ...(["ADD", "DEL"] as const).flatMap((command) =>
      section(
        `Where the time of one ${command} goes (ptp and macvlan, medians of \`PLEXUS_TRACE=1\`)`,
        markdownTable(
          ["phase", "ms"],
          results.phases[command].map((phase) => [phase.name, phase.median.toFixed(2)]),
        ),
      ),
    ),
    ...section(
      "plexusd's main thread for one ADD and one DEL, by the code that runs (ptp and macvlan)",
      ownerTable(results.profile),
    ),
    ...section(
      "plexus-standalone for one ADD and one DEL, by the code that runs (ptp and macvlan)",
      ownerTable(results.standaloneProfile),
    ),
    ...results.growth.flatMap((each) => section(`${each.title} (${each.unit})`, growthTable(each))),
  ].join("\n");
}

function section(title: string, table: string): string[] {
  return table === "" ? [] : ["", `**${title}**`, "", table];
}

function effortOf({ quick, rounds, seconds }: Results): string {
  const time = seconds < 120 ? `${seconds} seconds` : `${Math.round(seconds / 60)} minutes`;
  return `${quick ? "`QUICK=1`" : "the full run"}, ${rounds} rounds, ${time}`;
}

function versionsOf({ versions }: Results): string {
  return Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(", ");
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

function growthTable({ lines, along }: Growth): string {
  const xs = lines[0]?.points.map(([x]) => x.toLocaleString("en")) ?? [];
  return markdownTable(
    [along, ...xs],
    lines.map(({ name, points }) => [name, ...points.map(([, y]) => y.toFixed(2))]),
  );
}
