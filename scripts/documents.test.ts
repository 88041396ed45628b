import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { documentProblems } from "./documents.ts";

/** What is wrong with a page beside `src/a.ts`, which has the names `readKeys` and `Life`. */
function problemsOf(page: string): string[] {
  const root = mkdtempSync(join(tmpdir(), "plexus-documents-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, "src"));
  writeFileSync(join(root, "src/a.ts"), "class Life { #open = readKeys(); }");
  writeFileSync(join(root, "page.md"), page);
  return documentProblems(root);
}

test.each([
  "`readKeys()` in `src/a.ts`, or `Life` and `Life.#open` there. `Other` is elsewhere.",
  "`src/a.ts` (`Life`): what\n`readKeys()` reads",
  "| `Life` | `src/a.ts` |\n| `Other` | no file |",
  "`src/a.ts` has `hot-plug`, `true`, `PLEXUS_TRACE=1`, `#` and `plexusctl status`",
  "1. `src/a.ts`\n2. `Other`",
  "```\n`Other` in `src/a.ts`\n```",
])("a page may have %j", (page) => {
  expect(problemsOf(page)).toEqual([]);
});

test.each([
  ["`readKey()` in `src/a.ts`", "readKey() is not in src/a.ts"],
  ["`src/a.ts` (`Lif`): what it is", "Lif is not in src/a.ts"],
  ["`Life.#close` (`src/a.ts`)", "Life.#close is not in src/a.ts"],
  ["- the key in\n  `knownKeys` of `src/a.ts`", "knownKeys is not in src/a.ts"],
  ["`src/b.ts`", "src/b.ts"],
  ["[b](src/b.ts)", "src/b.ts"],
  ["[c](#heading)", "#heading"],
])("a page may not have %j", (page, problem) => {
  expect(problemsOf(page)).toEqual([`page.md: ${problem}`]);
});

test("the symptoms quote messages as the code has them", () => {
  const root = join(import.meta.dirname, "..");
  const read = (path: string): string => readFileSync(join(root, path), "utf8");
  const code = globSync(["src/**/*.ts", "shim/*.c"], { cwd: root })
    .filter((path) => !path.endsWith(".test.ts"))
    .map((path) => read(path).replaceAll(/["`]\s*\+?\s*["`]/g, ""))
    .join("\n")
    .toLowerCase();
  const rows = read("docs/operations/troubleshooting.md").match(/^\| … with `.*?\|/gm) ?? [];
  const messages = rows.flatMap((row) => row.match(/(?<=`)[a-z][^`]+(?=`)/gi) ?? []);
  expect(messages.length).toBeGreaterThan(8);
  const pieces = messages.flatMap((text) => text.split(/…|\/\S+/)).map((text) => text.trim());
  expect(pieces.filter((piece) => !code.includes(piece.toLowerCase()))).toEqual([]);
});
