import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../e2e/support/paths.ts";
import type { Row } from "../results.ts";
import { readResults } from "./output.ts";
import { formatReport, pageReport } from "./report.ts";

const results = readResults(join(repositoryRoot, "bench/performance.json"));
const page = readFileSync(join(repositoryRoot, "docs/operations/performance.md"), "utf8");

test("the page about performance has the tables of the recorded run; `node bench/main.ts --from bench/performance.json --write` writes them", () => {
  expect(page).toContain(`<!-- bench -->\n\n${pageReport(results)}\n\n<!-- end of bench -->`);
});

test("the terminal also has what the page leaves out", () => {
  const text = formatReport(results);
  for (const part of ["| floor with duties |", "**ADD by pods", "1,000 definitions and 250 pods"]) {
    expect(text).toContain(part);
    expect(pageReport(results)).not.toContain(part);
  }
});

test("the first table of the page has the medians over the delegates, and the times of 20 pods", () => {
  const ids = [
    "plexus",
    "plexus-standalone",
    "multus-thick",
    "multus",
    "plexus-standalone-further",
  ];
  const rowsOf = (id: string): Row[] => {
    const rows = results.cases.find((each) => each.id === id)?.rows ?? [];
    return ["direct", ...ids].flatMap((name) => rows.find((row) => row.id === name) ?? []);
  };
  const over = (command: "add" | "del"): string[] => {
    const [base = 0, ...others] = rowsOf("real").map((row) => row[command].p50);
    return others.map((p50) => (p50 - base).toFixed(1));
  };
  const [base = 1, ...bursts] = rowsOf("real-20").map(({ burst }) => burst?.add ?? Number.NaN);
  const times = bursts.map((all) => (all / base).toFixed(2));
  expect(page).toContain(`| ADD, ms | ${over("add").join(" | ")} |`);
  expect(page).toContain(`| DEL, ms | ${over("del").join(" | ")} |`);
  expect(page).toContain(`plugins alone | ${times.join(" | ")} |`);
});
