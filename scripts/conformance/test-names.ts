import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, relative } from "node:path";

/** A test of `vitest list --json`. The name of a table of tests is not expanded. */
export interface ListedTest {
  /** Includes the names of its suites. */
  readonly name: string;
  /** Absolute. */
  readonly file: string;
  readonly location: { readonly line: number };
}

/** A test whose name has identifiers of requirements or security claims. */
export interface ProvingTest {
  /** Relative to the repository. */
  readonly file: string;
  /** Without the identifiers. */
  readonly name: string;
  readonly ids: readonly string[];
}

const identifier = /\[([RNM]-[^\]\s]+|D-\d+|S-\d{3})\]/g;

/** Identifiers of any list at the end of a name. */
const anyIdentifier = /\[[A-Z]-[^\]\s]+\]/g;

/**
 * All tests of all projects. Vitest parses their files without running them. It gets only PATH of this process,
 * which may itself be a test.
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

/** The tests that name requirements, by file and line. */
export function provingTests(root: string, listed: readonly ListedTest[]): ProvingTest[] {
  return listed
    .filter(({ name }) => identifiers(name).length > 0)
    .toSorted((a, b) => compare(a.file, b.file) || a.location.line - b.location.line)
    .map(({ file, name }) => {
      const text = name.replaceAll(anyIdentifier, "").replaceAll(/\\(.)/g, "$1");
      const words = text.replaceAll(/\s+/g, " ").trim();
      return { file: relative(root, file), name: words, ids: identifiers(name) };
    });
}

/** Identifiers outside of test names, where they prove nothing: one line each. */
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
