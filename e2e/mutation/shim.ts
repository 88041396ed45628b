import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { repositoryRoot } from "../support/paths.ts";
import type { Mutant } from "./mutant.ts";
import { type ShimMutant, shimMutants } from "./shim-mutants.ts";

/** The behaviour tests that say most about a source file; the others follow if they pass. */
const testsOf: Readonly<Record<string, string>> = {
  "agent.c": "agent",
  "call.c": "engine",
  "exec.c": "exec",
  "io.c": "engine",
  "lock.c": "lock",
  "main.c": "engine",
  "netlink.c": "netlink",
  "plan.c": "plan",
  "replay.c": "plan",
  "rules.c": "rules",
  "session.c": "engine",
  "trust.c": "trust",
};
/** What compares or builds the shipped executable, not the mutant. */
const excluded = ["model", "build", "version"].map((name) => `e2e/shim/${name}.test.ts`);
/** A mutant that hangs is found: all tests take a minute. */
const testsMaxMs = 300_000;

/**
 * Runs the shim's unit and behaviour tests on each mutant of its files.
 * @param isWanted which files
 */
export async function runShimMutants(isWanted: (file: string) => boolean): Promise<Mutant[]> {
  const files = readdirSync(join(repositoryRoot, "shim")).filter((name) => name.endsWith(".c"));
  const waiting = files
    .filter((name) => isWanted(`shim/${name}`))
    .flatMap((name) => shimMutants(`shim/${name}`, readFileSync(`shim/${name}`, "utf8")));
  const total = waiting.length;
  const done: Mutant[] = [];
  await Promise.all(
    Array.from({ length: availableParallelism() }, async (_, worker) => {
      for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
        const { text: _text, ...source } = mutant;
        const isKilled = await isFound(mutant, join("mutation", `shim-${worker}`));
        done.push({ ...source, outcome: isKilled ? "killed" : "survived" });
        if (done.length % 50 === 0) console.log(`${done.length} of ${total} mutants of the shim`);
      }
    }),
  );
  return done;
}

/** @param dir of the worker, below dist/ */
async function isFound({ file, text }: ShimMutant, dir: string): Promise<boolean> {
  const path = join(repositoryRoot, "dist", dir);
  rmSync(path, { recursive: true, force: true });
  mkdirSync(path, { recursive: true });
  cpSync(join(repositoryRoot, "shim"), join(path, "shim"), { recursive: true });
  writeFileSync(join(path, file), text);
  const build = ["-C", join(path, "shim"), "WARN=-std=c11 -w -D_GNU_SOURCE", "OUT=../plexus"];
  // Undefined behaviour of the unit tests counts, too.
  if (!(await passes("make", [...build, "unit"]))) return true;
  if (!(await passes("make", [...build, "../plexus"]))) return true;
  const vitest = ["run", "--project", "shim", "--bail", "1", "--maxWorkers", "1"];
  const env = { PLEXUS_SHIM_BUILDS: join(dir, "plexus") };
  const first = `e2e/shim/${testsOf[file.slice("shim/".length)] ?? "engine"}.test.ts`;
  if (!(await passes("vitest", [...vitest, first], env))) return true;
  const rest = [first, ...excluded].flatMap((name) => ["--exclude", name]);
  return !(await passes("vitest", [...vitest, ...rest], env));
}

/** Whether a program ends with 0 in time. */
async function passes(
  file: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<boolean> {
  const { exitCode } = await execa(file, args, {
    cwd: repositoryRoot,
    env,
    reject: false,
    timeout: testsMaxMs,
    stdin: "ignore",
  });
  return exitCode === 0;
}
