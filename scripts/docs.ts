import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { generatedPages } from "./docs/pages.ts";
import { withRepository } from "./release/repository.ts";

/**
 * Writes the pages and tables that are made from tables in src/. With --repository URL, it first sets the repository in
 * package.json, and in all files that name it.
 */
const { values } = parseArgs({ options: { repository: { type: "string" } } });

if (values.repository !== undefined) await setRepository(values.repository);
for (const [path, text] of generatedPages()) writeFileSync(path, text);

async function setRepository(url: string): Promise<void> {
  const { stdout } = await execa("git", ["grep", "--files-with-matches", "-I", ""]);
  for (const path of stdout.split("\n")) {
    const text = readFileSync(path, "utf8");
    const changed = withRepository(text, url);
    if (changed !== text) writeFileSync(path, changed);
  }
}
