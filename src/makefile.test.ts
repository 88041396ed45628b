import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { codeBlocks } from "../e2e/support/markdown.ts";

const root = join(import.meta.dirname, "..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

const files = [
  ...["*.md", ".ci/run", ".github/workflows/*"],
  "{bench,deploy,docs,e2e,examples,scripts,shim,src}/**/*.{md,ts,sh,yaml}",
];

const word = /(?:"[^"\n]*"|'[^'\n]*'|[^\s"'`#&|;\\])+/g;
const words = `((?: +${word.source})+)`;
const inLine = new RegExp(`(?<=^|[ \\t])make${words}`, "gm");
const inBackticks = new RegExp(`\`make${words}`, "g");

/**
 * The words that follow `make` in each command of a file that uses the repository's Makefile. In scripts and in the code
 * blocks of pages a command is a line; elsewhere it is in backticks.
 */
function makeCommands(path: string): string[][] {
  const text = read(path);
  const blocks = path.endsWith(".md") ? codeBlocks(text).map((block) => block.text) : [];
  const code = path.startsWith(".") ? [text] : blocks;
  return [...code.flatMap((each) => [...each.matchAll(inLine)]), ...text.matchAll(inBackticks)]
    .map(([, all = ""]) => all.match(word) ?? [])
    .filter(([first]) => first !== "-C");
}

const makefile = read("Makefile");
/** What each target does, as `make help` prints it; empty for targets that it leaves out. */
const targets = new Map(
  (/^\.PHONY: (.*)$/m.exec(makefile)?.[1] ?? "")
    .split(" ")
    .map((name) => [name, new RegExp(`^${name}:.*## (.*)`, "m").exec(makefile)?.[1] ?? ""]),
);

/** The words of a command that the Makefile does not know: targets, variables, and names of suites and cases. */
function unknownWords(command: readonly string[]): string[] {
  const help = command.map((each) => targets.get(each) ?? "").join(" ");
  return command.filter((each) => {
    const [, name, value] = /^"?([A-Z_]+)=(.*)$/.exec(each) ?? [];
    if (name === undefined) return !targets.has(each) && !each.startsWith("fuzz-");
    if (name === "SUITE" || name === "CASE") return !new RegExp(`\\b${value}\\b`).test(help);
    return !new RegExp(`\\b${name}\\b`).test(makefile);
  });
}

test("the Makefile has the targets and variables that pages, workflows, scripts and comments name", () => {
  const commands = globSync(files, { cwd: root }).flatMap((path) =>
    makeCommands(path).map((command) => ({ path, command })),
  );
  expect(commands.length).toBeGreaterThan(100);
  const problems = commands.flatMap(({ path, command }) =>
    unknownWords(command).map((each) => `${path}: make ${command.join(" ")}: no ${each}`),
  );
  expect(problems).toEqual([]);
});
