import { globSync } from "node:fs";
import { matchesGlob } from "node:path";
import { parseArgs } from "node:util";
import { markdownTable, replaceSection } from "../support/markdown.ts";
import type { Mutant } from "./mutant.ts";
import { runShimMutants } from "./shim.ts";
import { runStryker } from "./stryker.ts";
import { keyOf, kinds, readVerdicts, verdictsFile } from "./verdicts.ts";

const page = "docs/lab/mutations.md";
/** What a whole run mutates, a row of the page each. */
const parts = ["src/cni", "src/engine", "src/npwg", "src/records", "shim"];

const { values } = parseArgs({
  options: {
    files: { type: "string" },
    write: { type: "boolean", default: false },
  },
});
if (values.write && values.files !== undefined) throw new Error("--write needs a whole run");

const wanted = values.files ?? parts.map((part) => `${part}/**`).join(",");
const isWanted = (file: string): boolean =>
  wanted.split(",").some((glob) => file === glob || matchesGlob(file, glob));
const sources = globSync("src/**/*.ts", { exclude: ["**/testing/**", "**/*.test.ts"] });
const scripts = sources.filter(isWanted);
const mutants = [
  ...(scripts.length === 0 ? [] : await runStryker(scripts)),
  ...(await runShimMutants(isWanted)),
];

const verdicts = readVerdicts();
const left = mutants.filter(({ outcome }) => outcome !== "killed");
const unjudged = left.filter((mutant) => !verdicts.has(keyOf(mutant)));
const text = markdownTable(
  ["part", "mutants", "found", ...kinds],
  parts.map((part) => row(part)).filter(([, count]) => count !== "0"),
);
console.log(text);
if (values.write) await replaceSection(page, "mutations", text);
for (const { file, line, before, after, outcome } of unjudged)
  console.log(`${file}:${line} ${outcome}\n${file}\n- ${before}\n+ ${after}\n`);
if (unjudged.length > 0) {
  console.error(`${unjudged.length} mutants survive without a verdict in ${verdictsFile}`);
  process.exitCode = 1;
}

function row(part: string): string[] {
  const isOfPart = ({ file }: Mutant): boolean => file.startsWith(`${part}/`);
  const judged = left.filter(isOfPart).map((mutant) => verdicts.get(keyOf(mutant))?.kind);
  const all = mutants.filter(isOfPart).length;
  const counts = kinds.map((kind) => judged.filter((each) => each === kind).length);
  return [part, ...[all, all - judged.length, ...counts].map(String)];
}
