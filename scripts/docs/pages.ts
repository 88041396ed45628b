import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type MetricRow, metricTable } from "#daemon/http/metric-table.ts";
import { pluginErrors, pluginFailed } from "#engine/explain/explain-error.ts";
import { reasonRows } from "#lib/reasons.ts";
import { renderConfigDocs } from "./configuration.ts";

const docs = join(import.meta.dirname, "../../docs");

/** A table of a page: the names of its columns, and its rows. */
type Table = readonly [head: readonly string[], ...rows: (readonly (string | number)[])[]];

/** The path and the text of each page that is made from tables in src/, all of it or tables alone. */
export function generatedPages(): [path: string, text: string][] {
  return [
    [join(docs, "user/configuration.md"), renderConfigDocs()],
    pageWith("operations/troubleshooting.md", reasonCells(), pluginCells()),
    pageWith("operations/metrics.md", metricCells()),
  ];
}

function reasonCells(): Table {
  const rows = reasonRows().map(([name, { code, step }]) => [`\`${name}\``, code, step]);
  return [["reason", "code", "what to do"], ...rows];
}

/** What `explain` makes of a plugin's words, apart from what the table of reasons has. */
function pluginCells(): Table {
  const reasons = new Set<string>(reasonRows().map(([name]) => name));
  const rows = [...pluginErrors, pluginFailed]
    .filter(({ finding }) => !reasons.has(finding))
    .map(({ finding, step }) => [`\`${finding}\``, step]);
  return [["error of a plugin", "what to do"], ...rows];
}

/** Sentences of the metrics' help become cells. */
function metricCells(): Table {
  const rows = Object.entries<MetricRow>(metricTable).map(([name, { labelNames = [], help }]) => {
    const labels = labelNames.length === 0 ? "" : `{${labelNames.join(",")}}`;
    return [`\`${name}${labels}\``, `${help.charAt(0).toLowerCase()}${help.slice(1, -1)}`];
  });
  const ofProcess = ["`process_…`, `nodejs_…`", "memory, CPU, descriptors, event loop"];
  return [["metric{labels}", "meaning"], ...rows, ofProcess];
}

/** The page with these tables instead of its tables with the same columns. */
function pageWith(page: string, ...tables: readonly Table[]): [path: string, text: string] {
  const path = join(docs, page);
  return [path, tables.reduce((text, table) => withTable(text, table), readFileSync(path, "utf8"))];
}

function withTable(text: string, [head, ...rows]: Table): string {
  // Without spaces: the pages' limit of words counts what is between them.
  const line = (cells: Table[number]): string => `|${cells.join("|")}|\n`;
  const [before, after, ...others] = text.split(`\n${line(head)}`);
  if (after === undefined || others.length > 0) throw new Error(`not one table: ${line(head)}`);
  const rule = `|${"---|".repeat(head.length)}\n`;
  return `${before}\n${line(head)}${rule}${rows.map(line).join("")}${after.replace(/^(\|.*\n)*/, "")}`;
}
