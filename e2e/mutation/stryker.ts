import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { repositoryRoot } from "../support/paths.ts";
import { type Mutant, oneLineOf } from "./mutant.ts";

/** What is used of a report, as the schema of mutation-testing-elements has it. */
interface Report {
  readonly files: Readonly<Record<string, { source: string; mutants: readonly ReportedMutant[] }>>;
}

interface ReportedMutant {
  readonly replacement: string;
  readonly status: "Killed" | "Timeout" | "Survived" | "NoCoverage" | "RuntimeError" | "Ignored";
  /** From 1. */
  readonly location: Readonly<Record<"start" | "end", { line: number; column: number }>>;
}

/** Their modules keep what they have read, which must not pass from one mutant to the next. */
const stateful = ["config", "config-keys", "config-table"].map((name) => `src/engine/${name}.ts`);

/**
 * Runs the unit tests on each mutant that Stryker makes of these files. One that an earlier run
 * found counts as found, unless its code or the test that found it has changed.
 */
export async function runStryker(files: readonly string[]): Promise<Mutant[]> {
  forgetSurvivors();
  await run(files.filter((file) => !stateful.includes(file)));
  await run(
    files.filter((file) => stateful.includes(file)),
    { PLEXUS_OWN_THREADS: "1" },
  );
  const path = join(repositoryRoot, "dist/mutation/stryker.json");
  return mutantsOf(JSON.parse(readFileSync(path, "utf8"))).filter(({ file }) =>
    files.includes(file),
  );
}

/**
 * Survivors are tested again: Stryker does not see that a test which passes with them has changed,
 * nor which tests cover what runs when a module loads.
 */
function forgetSurvivors(): void {
  const path = join(repositoryRoot, "dist/mutation/incremental.json");
  if (!existsSync(path)) return;
  const report: Report = JSON.parse(readFileSync(path, "utf8"));
  const files = Object.entries(report.files).map(([name, file]) => {
    const mutants = file.mutants.filter(({ status }) => status !== "Survived");
    return [name, { ...file, mutants }];
  });
  writeFileSync(path, JSON.stringify({ ...report, files: Object.fromEntries(files) }));
}

async function run(files: readonly string[], env: Record<string, string> = {}): Promise<void> {
  if (files.length === 0) return;
  await execa("stryker", ["run", "e2e/mutation/stryker.json", "--mutate", files.join(",")], {
    cwd: repositoryRoot,
    env,
    stdio: ["ignore", "inherit", "inherit"],
  });
}

/** The mutants of a report. */
export function mutantsOf({ files }: Report): Mutant[] {
  return Object.entries(files).flatMap(([file, { source, mutants }]) =>
    mutants
      .filter(({ status }) => status !== "Ignored")
      .map(({ replacement, status, location }) => ({
        file,
        line: location.start.line,
        ...changedLines(source, { replacement, location }),
        outcome: outcomeOf(status),
      })),
  );
}

function outcomeOf(status: ReportedMutant["status"]): Mutant["outcome"] {
  if (status === "NoCoverage") return "untested";
  return status === "Survived" ? "survived" : "killed";
}

/** The lines that the change concerns, whole, so that they tell where it is. */
function changedLines(
  source: string,
  { replacement, location }: Pick<ReportedMutant, "replacement" | "location">,
): Pick<Mutant, "before" | "after"> {
  const lines = source.split("\n").slice(location.start.line - 1, location.end.line);
  const head = (lines[0] ?? "").slice(0, location.start.column - 1);
  const tail = (lines.at(-1) ?? "").slice(location.end.column - 1);
  return { before: oneLineOf(lines.join("\n")), after: oneLineOf(head + replacement + tail) };
}
