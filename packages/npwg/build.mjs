import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { writeBundleLicences } from "../../scripts/components/licences.ts";

/** Bundles src/npwg/api.ts and its types into what `npm pack` packs, for Node 20 and browsers: ES module and CommonJS. */
const root = join(import.meta.dirname, "../..");
const source = join(root, "src/npwg/api.ts");
for (const [format, name] of [
  ["esm", "index.js"],
  ["cjs", "index.cjs"],
]) {
  const { metafile } = await build({
    absWorkingDir: root,
    metafile: true,
    entryPoints: [source],
    outfile: join(import.meta.dirname, name),
    bundle: true,
    external: ["ipaddr.js"],
    platform: "browser",
    format,
    target: "es2022",
    banner: { js: "// SPDX-License-Identifier: Apache-2.0" },
  });
  await writeBundleLicences(import.meta.dirname, metafile);
}
const outDir = await mkdtemp(join(tmpdir(), "plexus-npwg-"));
try {
  const project = join(outDir, "tsconfig.json");
  const emit = { noEmit: false, declaration: true, emitDeclarationOnly: true, outDir };
  const compilerOptions = {
    ...emit,
    rootDir: root,
    typeRoots: [join(root, "node_modules/@types")],
  };
  const extended = join(root, "tsconfig.json");
  const config = { extends: extended, compilerOptions, include: [], files: [source] };
  await writeFile(project, JSON.stringify(config));
  await promisify(execFile)(join(root, "node_modules/.bin/tsc"), ["--project", project]);
  const types = await readFile(join(outDir, "src/npwg/api.d.ts"), "utf8");
  if (/^import /m.test(types)) throw new Error("src/npwg/api.ts exports types of other files");
  for (const name of ["index.d.ts", "index.d.cts"])
    await writeFile(join(import.meta.dirname, name), types);
} finally {
  await rm(outDir, { recursive: true });
}
