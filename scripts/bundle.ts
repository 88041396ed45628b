import { chmod, rm, writeFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { basename, dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { type BuildOptions, build, type Metafile, type Plugin } from "esbuild";
import { execa } from "execa";
import { packagesOf } from "./components/npm.ts";

/**
 * Builds dist/plexusd.js and dist/plexusctl.js (for the pinned Node), or with --standalone the
 * one-file executable dist/plexus-standalone (compiled by Bun). With --readable DIR it builds them there, with
 * the names of all functions and the path of each module, for a profile (bench/measure/profile.ts): a
 * plexus-standalone that writes one to DIR/profiles when it ends.
 * With --bun FILE, the executable contains this Bun, which may be of another architecture; --out is its path, and
 * --entry another program for it.
 * Beside each, FILE.packages.json lists the npm packages that it contains.
 */
const { values } = parseArgs({
  options: {
    standalone: { type: "boolean", default: false },
    bun: { type: "string" },
    entry: { type: "string", default: "src/standalone/main.ts" },
    out: { type: "string", default: "dist/plexus-standalone" },
    readable: { type: "string" },
    version: { type: "string", default: "0.0.0" },
    commit: { type: "string", default: "unknown" },
  },
});

/** The `netlink` package loads a native addon for its sockets; Plexus only uses its codecs. */
const noNativeAddons: Plugin = {
  name: "no-native-addons",
  setup(bundler) {
    bundler.onResolve({ filter: /^node-gyp-build$/ }, (found) => ({
      errors: [{ text: `${found.importer} needs a native addon; import codecs only` }],
    }));
  },
};

/**
 * An import of a Node module reads all of its exports, and some load more modules when read: undici in
 * `node:http`, WebCrypto in `node:crypto`. Required as objects, they load only what is used: 8 MiB less.
 */
const builtinsAsObjects: Plugin = {
  name: "builtins-as-objects",
  setup(bundler) {
    const namespace = "builtin";
    bundler.onResolve({ filter: /./ }, ({ path }) =>
      isBuiltin(path) ? { path: path.replace(/^(node:)?/, "node:"), namespace } : undefined,
    );
    bundler.onLoad({ filter: /./, namespace }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
    }));
  },
};

/**
 * plexus-standalone lives for one call. What most calls do not use, and Bun's modules of Node, are loaded
 * when one of their exports is read for the first time, instead of at start.
 */
const loadedWhenUsed: Plugin = {
  name: "loaded-when-used",
  setup(bundler) {
    const namespace = "loaded-when-used";
    bundler.onResolve({ filter: /./ }, async ({ path, ...from }) => {
      if (from.namespace === namespace || from.kind !== "import-statement") return undefined;
      if (isBuiltin(path)) return { path: path.replace(/^(node:)?/, "node:"), namespace };
      if (!/^(zod|yaml|netlink\/.+)$/.test(path)) return undefined;
      const { path: found } = await bundler.resolve(path, {
        ...{ ...from, namespace },
        // A CommonJS module does nothing before it is required; an ES module defines its exports.
        kind: "require-call",
      });
      return { path: found, namespace };
    });
    bundler.onLoad({ filter: /./, namespace }, async ({ path }) => {
      if (path === "node:process") return { contents: "export default globalThis.process;" };
      const getters = Array.from(
        await exportsOf(path),
        (name) => `get ${JSON.stringify(name)}() { return ${sourceOf(path, name)}; }`,
      );
      // Inherited, because esbuild copies the own properties of a module for each file that imports it.
      const contents = `module.exports = Object.create({ ${getters.join(", ")} });`;
      return { contents, resolveDir: import.meta.dirname };
    });
  },
};

const plugins = [noNativeAddons];

const common: BuildOptions = {
  bundle: true,
  platform: "node",
  target: "node24",
  format: "esm",
  minify: true,
  keepNames: true,
  legalComments: "none",
  logLevel: "warning",
  // The path of a package decides the order and the names of chunks. Where a link leads must not.
  preserveSymlinks: true,
  plugins,
  define: {
    "globalThis.PLEXUS_VERSION": JSON.stringify(values.version),
    "globalThis.PLEXUS_COMMIT": JSON.stringify(values.commit),
  },
};

if (values.standalone) await buildStandalone();
else {
  const outdir = values.readable ?? "dist";
  await rm(`${outdir}/chunks`, { recursive: true, force: true });
  const { metafile } = await build({
    ...common,
    metafile: true,
    minify: values.readable === undefined,
    plugins: [...plugins, builtinsAsObjects],
    entryPoints: { plexusd: "src/daemon/main.ts", plexusctl: "src/cli/main.ts" },
    outdir,
    // Dynamic imports are loaded when they are needed.
    splitting: true,
    chunkNames: "chunks/[name]-[hash]",
  });
  await writePackages(outdir, "plexusd", metafile);
}

async function writePackages(dir: string, name: string, metafile: Metafile): Promise<void> {
  const list = JSON.stringify(packagesOf(metafile), undefined, 2);
  await writeFile(join(dir, `${name}.packages.json`), `${list}\n`);
}

/** The exports of a module; those of a CommonJS module are all members of its default export. */
async function exportsOf(path: string): Promise<Iterable<string>> {
  const exports: Record<string, unknown> = await import(path);
  return new Set([exports, exports.default ?? {}].flatMap((each) => Object.keys(each)));
}

/** What is read for an export. Bun has its own fast checksum, and `node:zlib` takes milliseconds to load. */
function sourceOf(path: string, name: string): string {
  if (path === "node:zlib" && name === "crc32") return "Bun.hash.crc32";
  return `require(${JSON.stringify(path)})[${JSON.stringify(name)}]`;
}

async function buildStandalone(): Promise<void> {
  const { readable } = values;
  const bundle = readable === undefined ? `${values.out}.cjs` : `${readable}/standalone.cjs`;
  const profiler = `--cpu-prof --cpu-prof-interval=100 --cpu-prof-dir=${readable}/profiles`;
  const { metafile } = await build({
    ...common,
    metafile: true,
    minify: readable === undefined,
    plugins: [...plugins, loadedWhenUsed],
    format: "cjs",
    // The names of all functions and classes would be set at start.
    keepNames: false,
    // Bun would write the path of the checkout in its place, so that each build differs. A library names a file by it.
    define: { ...common.define, __dirname: '"/"', __filename: '"/plexus-standalone"' },
    entryPoints: [values.entry],
    outfile: bundle,
  });
  await execa("bun", [
    "build",
    "--compile",
    ...(readable === undefined
      ? ["--minify"]
      : ["--sourcemap=inline", `--compile-exec-argv=${profiler}`]),
    "--bytecode",
    // The working directory is the container runtime's: nothing is read from there.
    "--no-compile-autoload-dotenv",
    "--no-compile-autoload-bunfig",
    ...(values.bun === undefined ? [] : ["--compile-executable-path", values.bun]),
    bundle,
    "--outfile",
    values.out,
  ]);
  await chmod(values.out, 0o755);
  await writePackages(dirname(values.out), basename(values.out), metafile);
  if (readable === undefined) await rm(bundle);
}
