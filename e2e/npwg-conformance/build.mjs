import { chmod } from "node:fs/promises";
import { build } from "esbuild";
import { writeBundleLicences } from "../../scripts/components/licences.ts";

/** Bundles the suite into the one file that `npm pack` packs, for Node 20 and later. */
const { metafile } = await build({
  absWorkingDir: import.meta.dirname,
  metafile: true,
  entryPoints: ["main.ts"],
  outfile: "npwg-conformance.js",
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  banner: { js: "#!/usr/bin/env node\n// SPDX-License-Identifier: Apache-2.0" },
});
await chmod(`${import.meta.dirname}/npwg-conformance.js`, 0o755);
await writeBundleLicences(import.meta.dirname, metafile);
