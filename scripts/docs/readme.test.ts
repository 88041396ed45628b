import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { documents } from "../documents.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const readme = read("README.md");

/** The cells of a table's row that begins with a text, without the first. */
function row(page: string, first: string): string[] {
  const line = page.split("\n").find((each) => each.startsWith(`| ${first}`)) ?? "";
  return line
    .split(" | ")
    .slice(1)
    .map((cell) => cell.replace(/ \|$/, ""));
}

test("the pages have at most 55,000 words", () => {
  const isPage = (path: string): boolean =>
    /^(?:docs\/.*|README|ARCHITECTURE|CONTRIBUTING)\.md$/.test(path);
  const words = documents(root)
    .filter(isPage)
    .flatMap((page) => read(page).match(/\S+/g) ?? []);
  expect(words.length).toBeLessThanOrEqual(55_000);
});

test("README.md fits on two screens, and has one picture", () => {
  expect(readme.trimEnd().split("\n").length).toBeLessThanOrEqual(120);
  expect(readme.match(/!\[/g)).toHaveLength(1);
});

test("README.md compares what the fault matrix left", () => {
  const [plexus, thin, thick] = row(read("docs/operations/reliability.md"), "all runs").map(
    (cell) => cell.split("/").map((count) => Number(count).toLocaleString("en")),
  );
  expect(row(readme, "resources left on the node")).toEqual([
    `thin: in ${thin?.[1]} of ${thin?.[0]} runs; thick: in ${thick?.[1]} of ${thick?.[0]}`,
    `in ${plexus?.[1]} of ${plexus?.[0]} runs`,
  ]);
});

test("README.md has the times of the page about performance", () => {
  const page = read("docs/operations/performance.md");
  const [plexus = 0, , thick = 0, thin = 0] = row(page, "ADD, ms").map(Number);
  const times = (other: number): string => (other / plexus).toFixed(1);
  expect(row(readme, "time added to a pod's start")).toEqual([
    `thick: ${times(thick)} times, thin: ${times(thin)} times what Plexus adds`,
    `${plexus} ms for two networks`,
  ]);
  const [, limit = ""] = /usually in less than (\d+) ms/.exec(readme) ?? [];
  for (const edit of ["a network is plugged", "a network is unplugged"])
    expect(Number(row(page, `${edit} |`)[1])).toBeLessThan(Number(limit));
});

test("README.md names the versions that the page about platforms has", () => {
  const page = read("docs/operations/platforms.md");
  const [, status = ""] = /\*\*Status\*\*: ([^[]*)/.exec(readme.replaceAll("\n", " ")) ?? [];
  const named = status.match(/(?:containerd|CRI-O|Docker Engine) [\d.]+\d/g) ?? [];
  expect(named).toHaveLength(3);
  for (const each of named) expect(page).toContain(`| ${each}`);
  expect(page).toContain(`- ${/Kubernetes ([\d.]+\d)/.exec(status)?.[1]}: run.`);
});
