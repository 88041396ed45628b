import { createHash } from "node:crypto";
import {
  appendFileSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import type { Mutant } from "./mutant.ts";
import { type ShimMutant, shimMutants } from "./shim-mutants.ts";
import { keyOf, readVerdicts } from "./verdicts.ts";

/** The behaviour tests that say most about a source file; the others follow if they pass. */
const testsOf: Readonly<Record<string, string>> = {
  "agent.c": "agent.test.ts",
  "exec.c": "exec.test.ts",
  "io.c": "version.test.ts",
  "lock.c": "lock.test.ts",
  "main.c": "version.test.ts",
  "netlink.c": "netlink/*",
  "plan.c": "plan.test.ts",
  "replay.c": "plan.test.ts",
  "rules.c": "rules.test.ts",
  "trust.c": "trust.test.ts",
};
/** What compares or builds the shipped executable, not the mutant. */
const excluded = ["model", "build"].map((name) => `e2e/shim/${name}.test.ts`);
/** Options of unshare: nothing of a mutant reaches the node, or outlives its tests. */
const apart = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
/** A mutant that hangs is found: all tests take a minute. */
const testsMaxMs = 300_000;

/** The tests wait more than they compute. */
const workers = 2 * availableParallelism();

/** What earlier runs found, a line for each mutant: an interrupted run continues. */
const results = "dist/mutation/shim.txt";

/**
 * Runs the shim's unit and behaviour tests on each mutant of its files that has no verdict.
 * @param isWanted which files
 */
export async function runShimMutants(isWanted: (file: string) => boolean): Promise<Mutant[]> {
  const mutants = globSync("shim/*.c")
    .filter(isWanted)
    .flatMap((file) => shimMutants(file, readFileSync(file, "utf8")));
  mkdirSync("dist/mutation", { recursive: true });
  const known = existsSync(results) ? readFileSync(results, "utf8").split("\n") : [];
  const found = known.filter((line) => line.startsWith("killed"));
  const outcomes = new Map(found.map((line) => [line.slice(9), "killed"]));
  const verdicts = readVerdicts();
  const waiting = mutants.filter(
    (mutant) => !outcomes.has(idOf(mutant.text)) && !verdicts.has(keyOf(mutant)),
  );
  const count = waiting.length;
  if (count > 0) await expectUnchangedToPass();
  const work = async (worker: number): Promise<void> => {
    const dir = prepare(worker);
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const outcome = (await isFound(mutant, dir)) ? "killed" : "survived";
      outcomes.set(idOf(mutant.text), outcome);
      appendFileSync(results, `${outcome.padEnd(8)} ${idOf(mutant.text)}\n`);
      if (waiting.length % 50 === 0) console.log(`${waiting.length} of ${count} shims are left`);
    }
  };
  await Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)));
  return mutants.map(({ text, ...source }) => {
    const isKilled = outcomes.get(idOf(text)) === "killed";
    return { ...source, outcome: isKilled ? "killed" : "survived" };
  });
}

/** @throws Error if the tests fail without a mutant: they would find each */
async function expectUnchangedToPass(): Promise<void> {
  const file = "shim/main.c";
  if (await isFound({ file, text: readFileSync(file, "utf8") }, prepare(0)))
    throw new Error("the tests fail without a mutant");
}

/** Makes a worker's directory below dist/, where make compiles only what changes, and returns it. */
function prepare(worker: number): string {
  const dir = join("mutation", `shim-${worker}`);
  cpSync("shim", join("dist", dir, "shim"), { recursive: true });
  cpSync("package.json", join("dist", dir, "package.json"));
  return dir;
}

function idOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** @param dir of the worker, below dist/ */
async function isFound(
  { file, text }: Pick<ShimMutant, "file" | "text">,
  dir: string,
): Promise<boolean> {
  const path = join("dist", dir);
  writeFileSync(join(path, file), text);
  try {
    const build = ["-C", join(path, "shim"), "WARN=-std=c11 -w -D_GNU_SOURCE", "OUT=../plexus"];
    // Undefined behaviour of the unit tests counts, too.
    if (!(await passes("make", [...build, "unit"]))) return true;
    if (!(await passes("make", [...build, "../plexus"]))) return true;
    // A test that fails only once found a busy machine, no mutant.
    const vitest = ["run", "--project", "shim", "--bail", "1", "--retry", "1"];
    const env = { PLEXUS_SHIM_BUILDS: join(dir, "plexus") };
    const first = `e2e/shim/${testsOf[file.slice("shim/".length)] ?? "engine.test.ts"}`;
    if (!(await passes("vitest", [...vitest, ...globSync(first)], env))) return true;
    const rest = [first, ...excluded].flatMap((name) => ["--exclude", name]);
    return !(await passes("vitest", [...vitest, ...rest], env));
  } finally {
    cpSync(file, join(path, file));
  }
}

/**
 * Whether a program ends with 0 in time. A shim without its rules may end other processes and
 * change interfaces, so it runs in separate namespaces.
 */
async function passes(
  file: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<boolean> {
  const { exitCode } = await execa("unshare", [...apart, file, ...args], {
    env,
    reject: false,
    timeout: testsMaxMs,
    stdin: "ignore",
  });
  return exitCode === 0;
}
