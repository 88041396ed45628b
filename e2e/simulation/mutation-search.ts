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
 * @returns a line for each of them, and what the page says of all
 */
export async function mutationsReport(
  only: string,
): Promise<{ lines: string[]; section: string; areAllFound: boolean }> {
  const found: Found[] = [];
  for (const { name, change } of simulatedMutations.filter((each) => each.name.includes(only))) {
    const { histories, findings } = await searchMutant(mutantSearch, change);
    found.push({ name, histories, property: findings[0]?.violation.property ?? "not found" });
  }
  return {
    lines: found.map(({ name, histories, property }) => `${name}: ${property}, ${histories}`),
    section: `${foundTable(found)}\n\nNot found, with the reason:\n\n${notFound()}`,
    areAllFound: found.every(({ property }) => property !== "not found"),
  };
}

/** A safeguard, and the first history that shows its absence. */
interface Found {
  readonly name: string;
  readonly property: string;
  readonly histories: number;
}

/** How many safeguards each property shows, and after at most how many histories. */
function foundTable(found: readonly Found[]): string {
  const rows = [...Map.groupBy(found, ({ property }) => property)].map(([property, of]) => [
    property,
    String(of.length),
    String(Math.max(...of.map(({ histories }) => histories))),
  ]);
  return markdownTable(["violated property", "safeguards", "histories, at most"], rows);
}

/** How many safeguards' absence no history shows, by reason. */
export function notFound(): string {
  return Object.entries(unsearched)
    .map(([reason, safeguards]) => wrapItem(`${safeguards.length}: ${reason}.`))
    .join("\n");
}
