import { readFileSync, writeFileSync } from "node:fs";
import { deployImage } from "./release/image.ts";
import { plainManifest } from "./release/manifest.ts";

/**
 * Writes deploy/install.yaml from deploy/base and deploy/image. With `--check` it writes nothing, and exits
 * with 1 if the file is stale.
 */
const target = new URL("../deploy/install.yaml", import.meta.url);
const head = "# Made by scripts/install-manifest.ts from deploy/base. Do not edit.\n";
const text = `${head}${plainManifest("base", deployImage())}`;

if (!process.argv.includes("--check")) writeFileSync(target, text);
else if (readFileSync(target, "utf8") !== text) {
  process.stderr.write("deploy/install.yaml is stale: run npx node scripts/install-manifest.ts\n");
  process.exitCode = 1;
}
