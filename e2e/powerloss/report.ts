import { join } from "node:path";
import { markdownTable, replaceSection } from "../support/markdown.ts";
import { repositoryRoot } from "../support/paths.ts";
import type { TaskResult } from "./worker.ts";

/** One story on a line, with every power loss that left something below it. */
export function describeResult({
  story,
  operations,
  disks,
  recoveries,
  leaks,
}: TaskResult): string {
  const head = `${story}: ${operations} operations, ${sumOf(disks)} different disks, ${recoveries} recoveries, ${leaks.length} left something`;
  const lines = leaks.flatMap(({ moment, survives, recovery, left }) => [
    `  ${moment}; ${survives}; ${recovery}:`,
    ...left.map((line) => `    ${line}`),
  ]);
  return [head, ...lines].join("\n");
}

/** Puts the table into docs/operations/reliability.md. */
export async function writeReport(results: readonly TaskResult[]): Promise<void> {
  const rows = results.map(({ story, operations, disks, recoveries, leaks }) => [
    story,
    ...[operations, sumOf(disks), recoveries, leaks.length].map(String),
  ]);
  const head = ["story", "operations", "different disks", "recoveries", "left something"];
  const path = join(repositoryRoot, "docs/operations/reliability.md");
  await replaceSection(path, "power-loss", markdownTable(head, rows));
}

function sumOf(disks: TaskResult["disks"]): number {
  return Object.values(disks).reduce((sum, each) => sum + each, 0);
}
