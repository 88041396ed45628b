import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { proseProblems } from "../scripts/prose/problems.ts";

const line = (words: number): string => Array.from({ length: words }, () => "word").join(" ");

test.each([
  ["a.ts", "/** plexusd is away. */", ['a.ts:1: "is away"']],
  ["a.ts", "const x = 1;\n/*\n * The rest is passed\n * over.\n */", ['a.ts:3: "passed * over"']],
  ["a.ts", 'throw new Error("it goes " +\n  "on with that");', ['a.ts:1: "goes " + "on"']],
  ["a.c", "// whoever\n// holds the lock", ['a.c:1: "whoever"']],
  ["a.yaml", "# A namespace of its\n# own.", ['a.yaml:1: "of its # own"']],
  ["a.md", "The plugin is told\nits name.", ['a.md:1: "is told"']],
  ["a.md", "`nobody`\n\n```\nnobody\n```\n[page](nobody.md)", []],
  ["a.ts", "/** The scheduler passes the overlay. It goes once. */", []],
])("proseProblems() finds forbidden phrases and their lines (%#)", (path, text, expected) => {
  const found = proseProblems(path, text).map((problem) => problem.replace(/: write .*/, ""));
  expect(found).toEqual(expected);
});

test.each([
  ["a.md", `- ${line(19)}\n- ${line(20)}`, ["a.md:2: 101 columns; at most 100"]],
  ["a.md", `| ${line(30)} |\n# ${line(30)}\n![${line(30)}](x.svg)`, []],
  ["a.md", `\`\`\`\n${line(30)}\n\`\`\`\n- [x](${"y".repeat(120)})\n<!-- ${line(30)} -->`, []],
  ["a.ts", `// ${line(30)}`, []],
])("proseProblems() finds long lines that can be wrapped (%#)", (path, text, expected) => {
  expect(proseProblems(path, text)).toEqual(expected);
});

test("messages and comments name sections of pages that exist", () => {
  const cwd = join(import.meta.dirname, "..");
  const flags = ["grep", "-ohE", 'docs/[a-z/-]+\\.md, "[^"]+"', "src", "shim", "deploy"];
  const named = execFileSync("git", flags, { cwd, encoding: "utf8" });
  const missing = named
    .trimEnd()
    .split("\n")
    .filter((each) => {
      const [path = "", heading] = each.replaceAll('"', "").split(", ");
      const lines = readFileSync(join(cwd, path), "utf8").split("\n");
      return !lines.some((line) => line.startsWith("#") && line.replace(/^#+ /, "") === heading);
    });
  expect(named).toContain('troubleshooting.md, "Leaked addresses"');
  expect(missing).toEqual([]);
});
