import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A test that says which requirements it proves. */
export interface ProvingTest {
  /** Below the repository, with slashes. */
  readonly file: string;
  /** Without the identifiers; of a table of tests, as it is written. */
  readonly name: string;
  readonly ids: readonly string[];
}

/** What the test files say. */
export interface TestScan {
  readonly tests: readonly ProvingTest[];
  /** Identifiers that are in no test's name, where they would prove nothing: one line each. */
  readonly stray: readonly string[];
}

const identifier = /\[([RN]-[^\]\s]+)\]/g;

/** Identifiers of whatever list, which names carry at their end. */
const anyIdentifier = /\[[A-Z]-[\w.]+\]/g;

/** A string literal that is the first argument of a call; the callee's last part is before it. */
const firstArgument = /([\w.]*|\))\(\s*(["'`])((?:\\.|(?!\2)[^\\])*)\2\s*,/gs;

const plainTest = /^(?:test|it)(?:\.(?:concurrent|sequential))*$/;

/** The beginning of `test.each(table)(name, …)`, whose table may hold anything. */
const tableTest = /^\s*(?:test|it)(?:\.concurrent)?\.(?:each|for|skipIf|runIf)[(`<]/gm;

/** Reads the names of all tests in the folders. */
export function scanTests(root: string, folders: readonly string[]): TestScan {
  const files = folders.flatMap((folder) => testFiles(root, folder));
  const scans = files.map((file) => scanFile(file, readFileSync(join(root, file), "utf8")));
  return {
    tests: scans.flatMap((scan) => scan.tests),
    stray: scans.flatMap((scan) => scan.stray),
  };
}

function testFiles(root: string, folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `${folder}/${name}`)
    .sort();
}

/** Reads the tests of one file. */
export function scanFile(file: string, source: string): TestScan {
  const all = [...source.matchAll(firstArgument)].flatMap((match) =>
    provingTest(file, match, source),
  );
  const tests = all.filter(({ ids }) => ids.length > 0);
  const proven = new Set(tests.flatMap(({ ids }) => ids));
  const stray = new Set(identifiers(source).filter((id) => !proven.has(id)));
  return {
    tests,
    stray: [...stray].map((id) => `${file}: [${id}] stands where no test has its name`),
  };
}

/** The test that a call makes; none for the call of something else. */
function provingTest(file: string, match: RegExpExecArray, source: string): ProvingTest[] {
  const [, callee = "", , name = ""] = match;
  const table = callee === ")" ? tableBefore(source.slice(0, match.index + 1)) : "";
  if (table === undefined || (callee !== ")" && !plainTest.test(callee))) return [];
  const plain = name.replaceAll(anyIdentifier, "").replaceAll(/\s+/g, " ").trim();
  // Where rows have identifiers of their own, the name has a place for them.
  return [{ file, name: plain.replaceAll(/\\(.)/g, "$1"), ids: identifiers(`${name} ${table}`) }];
}

/** The text of `test.each(table)` when that is what ends here. */
function tableBefore(before: string): string | undefined {
  const start = [...before.matchAll(tableTest)].at(-1)?.index;
  const text = before.slice(start);
  if (start === undefined || /^\}\);$/m.test(text)) return undefined;
  const variable = /\.(?:each|for)\((\w+)\)$/.exec(text)?.[1];
  return variable === undefined ? text : declaration(variable, before);
}

/** The text of a table that is declared before its use, at the beginning of a line. */
function declaration(variable: string, source: string): string {
  const [, rest = ""] = source.split(new RegExp(`^const ${variable}\\b`, "m"));
  return rest.slice(0, rest.search(/^\]/m));
}

function identifiers(text: string): string[] {
  return [...new Set([...text.matchAll(identifier)].map((match) => match[1] ?? ""))];
}
