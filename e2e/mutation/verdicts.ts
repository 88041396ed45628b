import { readFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryRoot } from "../support/paths.ts";
import type { Mutant } from "./mutant.ts";

/**
 * Why no test fails with a mutant:
 * - `same`: it does the same, or nothing that the specification or a page promises differs;
 * - `wording`: only the wording of a message, a log line or a trace differs;
 * - `elsewhere`: another suite than the ones of the mutation run has the test, named in the reason;
 * - `second`: another safeguard does the same, named in the reason.
 */
export const kinds = ["same", "wording", "elsewhere", "second"] as const;

/** What is known of a mutant that survives. */
interface Verdict {
  readonly file: string;
  readonly before: string;
  readonly after: string;
  readonly kind: (typeof kinds)[number];
  readonly reason: string;
}

/** The file with the verdicts, from the repository's root. */
export const verdictsFile = "e2e/mutation/verdicts.txt";

/**
 * The verdicts, by mutant. A verdict is four lines, `FILE`, `- BEFORE`, `+ AFTER` and
 * `KIND: REASON`, and an empty one; the file is given once for several of them.
 * @throws Error for any other line
 */
export function readVerdicts(): ReadonlyMap<string, Verdict> {
  const verdicts = new Map<string, Verdict>();
  let [file, before, after] = ["", "", ""];
  const text = readFileSync(join(repositoryRoot, verdictsFile), "utf8");
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const [, kind = "", reason = ""] = /^(\w+): (.+)$/.exec(line) ?? [];
    const known = kinds.find((each) => each === kind);
    if (line.startsWith("- ")) before = line.slice(2);
    else if (line.startsWith("+ ")) after = line.slice(2);
    else if (/^(src|shim)\/\S+$/.test(line)) file = line;
    else if (known === undefined) throw new Error(`${verdictsFile}: no verdict: ${line}`);
    else verdicts.set(keyOf({ file, before, after }), { file, before, after, kind: known, reason });
  }
  return verdicts;
}

/** Identifies a mutant without its line, which other changes move. */
export function keyOf({ file, before, after }: Pick<Mutant, "file" | "before" | "after">): string {
  return [file, before, after].join("\n");
}
