import { readFileSync, writeFileSync } from "node:fs";
import { parse } from "yaml";

/**
 * Writes deploy/install.yaml: the resources of deploy/base one after the other, for people without
 * kustomize. `--check` only says (by exit code 1) whether it has to be written.
 */
const root = new URL("../deploy/", import.meta.url);
const target = new URL("install.yaml", root);

function render(): string {
  const { resources } = parse(read("base/kustomization.yaml")) as { resources: string[] };
  const head = "# Made by scripts/install-manifest.ts from deploy/base. Do not edit.\n";
  const parts = resources.map((file) => read(`base/${file}`).trimEnd());
  return `${head}${parts.join("\n---\n")}\n`;
}

function read(path: string): string {
  return readFileSync(new URL(path, root), "utf8");
}

if (!process.argv.includes("--check")) writeFileSync(target, render());
else if (readFileSync(target, "utf8") !== render()) {
  process.stderr.write("deploy/install.yaml is stale: run npx node scripts/install-manifest.ts\n");
  process.exitCode = 1;
}
