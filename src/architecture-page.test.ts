import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "..");
const page = readFileSync(join(root, "ARCHITECTURE.md"), "utf8");

/** What a pattern captures in the files of a glob, each once. */
function captured(glob: string, pattern: RegExp): string[] {
  const texts = globSync(glob, { cwd: root }).map((path) => readFileSync(join(root, path), "utf8"));
  const found = texts.flatMap((text) => [...text.matchAll(pattern)].map(([, name = ""]) => name));
  return [...new Set(found)].toSorted();
}

/** The first cells of the table with these columns. */
function rowsOf(head: string): string[] {
  const [, table = ""] = page.split(`| ${head} |\n`);
  const [rows = ""] = table.split("\n\n");
  return [...rows.matchAll(/^\| ([^|]+) \|/gm)].map(([, cell = ""]) => cell.replaceAll("`", ""));
}

test("the page has every variable that the shim reads, except its own", () => {
  const read = captured("shim/*.c", /\b(?:setting|setting_ms|getenv)\("(PLEXUS_\w+)"/g);
  const set = captured("shim/*.c", /\bsetenv\("(PLEXUS_\w+)"/g);
  const settings = read.filter((name) => !set.includes(name));
  expect(settings.length).toBeGreaterThan(5);
  expect(rowsOf("variable | default | meaning").toSorted()).toEqual(settings);
});

test("the page has every part of plexusd", () => {
  const parts = captured("src/daemon/{start,node}.ts", /\bname: "([^"]+)"/g);
  const rows = rowsOf("part | start | stop").flatMap((cell) => cell.split(", "));
  expect(parts.length).toBeGreaterThan(5);
  expect(rows.toSorted()).toEqual(parts);
});
