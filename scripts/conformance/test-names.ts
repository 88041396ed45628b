import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, relative } from "node:path";

/** A test as `vitest list --json` has it: its name as it is written, be it that of a table of tests. */
export interface ListedTest {
  /** With the names of its suites before it. */
  readonly name: string;
  /** Absolute. */
  readonly file: string;
  readonly location: { readonly line: number };
}

/** A test that says which requirements, or claims about security, it proves. */
export interface ProvingTest {
  /** Below the repository. */
  readonly file: string;
  /** Without the identifiers. */
  readonly name: string;
  readonly ids: readonly string[];
}

const identifier = /\[([RNM]-[^\]\s]+|D-\d+|S-\d{3})\]/g;

/** Identifiers of whatever list, which names carry at their end. */
const anyIdentifier = /\[[A-Z]-[^\]\s]+\]/g;

/**
 * All tests of all projects. Vitest parses their files to list them and runs none of their code;
 * of what runs this it gets the PATH alone, as that may be a test itself.
 */
export function listTests(root: string): ListedTest[] {
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  const output = execFileSync(process.execPath, [vitest, "list", "--json"], {
    cwd: root,
    encoding: "utf8",
    env: { PATH: process.env.PATH },
    maxBuffer: 64 * 1024 * 1024,
  });
  return JSON.parse(output);
}

/** The tests that name requirements, in the order of their files and lines. */
export function provingTests(root: string, listed: readonly ListedTest[]): ProvingTest[] {
  return listed
    .filter(({ name }) => identifiers(name).length > 0)
    .toSorted((a, b) => compare(a.file, b.file) || a.location.line - b.location.line)
    .map(({ file, name }) => ({
      file: relative(root, file),
      name: name
        .replaceAll(anyIdentifier, "")
        .replaceAll(/\\(.)/g, "$1")
        .replaceAll(/\s+/g, " ")
        .trim(),
      ids: identifiers(name),
    }));
}

/** Identifiers that are in no test's name, where they would prove nothing: one line each. */
export function strayIdentifiers(root: string, listed: readonly ListedTest[]): string[] {
  const byFile = Map.groupBy(listed, ({ file }) => file);
  return [...byFile].flatMap(([file, tests]) => {
    const named = new Set(tests.flatMap(({ name }) => identifiers(name)));
    return identifiers(readFileSync(file, "utf8"))
      .filter((id) => !named.has(id))
      .map((id) => `${relative(root, file)}: [${id}] stands where no test has its name`);
  });
}

/** The identifiers in a text, each once. */
export function identifiers(text: string): string[] {
  return [...new Set([...text.matchAll(identifier)].map((match) => match[1] ?? ""))];
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
