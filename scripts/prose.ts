import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { proseProblems } from "./prose/problems.ts";

/**
 * Part of `make lint`: rejects phrases that readers have to read twice, in documents, comments and
 * messages, and Markdown lines over 100 columns.
 */
const root = join(import.meta.dirname, "..");

const checked =
  /\.(?:md|ts|c|h|sh|ya?ml|tpl|txt|json)$|(?:^|\/)Makefile$|^\.ci\/run$|kubectl-plexus$/;

/** Recorded from other programs, or generated from checked files. */
const notOurs =
  /^scripts\/components\/texts\/|^(?:package\.json|(?:.*\/)?package-lock\.json|bench\/performance\.json|e2e\/(?:vectors|fuzz\/corpus)\/|docs\/reference\/)/;
/** The check contains the phrases. */
const itself = /^(?:scripts\/prose[./]|src\/prose\.test\.ts)/;

const files = execFileSync("git", ["ls-files"], { cwd: root, encoding: "utf8" })
  .split("\n")
  .filter((path) => checked.test(path) && !notOurs.test(path) && !itself.test(path));
const problems = files.flatMap((path) =>
  proseProblems(path, readFileSync(join(root, path), "utf8")),
);
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exitCode = 1;
