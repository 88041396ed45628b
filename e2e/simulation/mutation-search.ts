import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { simulatedMutations } from "../safeguards/all.ts";
import type { SourceChange } from "../safeguards/mutation.ts";
import { unsearched } from "../safeguards/unsearched.ts";
import { markdownTable, wrapItem } from "../support/markdown.ts";
import { bundleSimulation } from "./bundle.ts";
import { runWorker } from "./run-worker.ts";
import type { WorkerOrder, WorkerReport } from "./worker.ts";

/**
 * The histories of a search: a minute on an idle machine. They are fixed, so that a result does not
 * depend on the machine.
 */
export const mutantSearch = { firstSeed: 1, step: 1, histories: 12_000 } as const;

/** Runs histories of a changed product until one violates a property. */
export async function searchMutant(
  search: Omit<WorkerOrder, "file">,
  change?: SourceChange,
): Promise<WorkerReport> {
  const dir = await mkdtemp(join(tmpdir(), "plexus-mutant-"));
  const file = join(dir, "mutant.cjs");
  try {
    await bundleSimulation(file, change);
    return await runWorker({ ...search, file });
  } finally {
    await rm(dir, { recursive: true });
  }
}

/**
 * Searches all mutants, or those whose names contain a text.
 * @returns a Markdown table, and the list of what is not searched
 */
export async function mutationsReport(
  only: string,
): Promise<{ text: string; areAllFound: boolean }> {
  const rows: string[][] = [];
  let areAllFound = true;
  for (const { name, change } of simulatedMutations.filter((each) => each.name.includes(only))) {
    const { histories, findings } = await searchMutant(mutantSearch, change);
    const property = findings[0]?.violation.property;
    areAllFound &&= property !== undefined;
    rows.push([name, String(histories), property ?? "not found"]);
  }
  const table = markdownTable(["safeguard", "histories", "violated property"], rows);
  return { text: `${table}\n\nNot found:\n\n${notFound()}`, areAllFound };
}

/** Safeguards whose absence no history shows, by reason. */
function notFound(): string {
  return Object.entries(unsearched)
    .map(([reason, safeguards]) => wrapItem(`${reason}: ${safeguards.join("; ")}.`))
    .join("\n");
}
