import { chmod, mkdir, rm } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { parseArgs } from "node:util";
import { type BuildOptions, build, type Plugin } from "esbuild";
import { execa } from "execa";

/**
 * Builds dist/plexusd.js and dist/plexusctl.js (for the pinned Node), or with --standalone the
 * one-file executable dist/plexus-standalone (compiled by Bun).
 */
const { values } = parseArgs({
  options: {
    standalone: { type: "boolean", default: false },
    version: { type: "string", default: "0.0.0" },
    commit: { type: "string", default: "unknown" },
  },
});

/**
 * plexus-standalone takes no kubeconfig that names a program, a proxy or an identity provider; what the client
 * library loads for these is not there.
 */
const plainKubeconfigs: Plugin = {
  name: "plain-kubeconfigs",
  setup(bundler) {
    const namespace = "not-for-plain-kubeconfigs";
    const names = /^(openid-client|socks|socks-proxy-agent|hpagent|jsonpath-plus)$/;
    bundler.onResolve({ filter: names }, ({ path }) => ({ path, namespace }));
    bundler.onLoad({ filter: /./, namespace }, () => ({ contents: "module.exports = {};" }));
  },
};

/** The `netlink` package loads a native addon for its sockets; Plexus uses its codecs alone. */
const noNativeAddons: Plugin = {
  name: "no-native-addons",
  setup(bundler) {
    bundler.onResolve({ filter: /^node-gyp-build$/ }, (found) => ({
      errors: [{ text: `${found.importer} needs a native addon; import codecs only` }],
    }));
  },
};

/**
 * Of the Kubernetes client library Plexus uses KubeConfig alone, for requests over node:https. The library does
 * not say that its modules have no side effects, so that all of its generated classes would come along, and
 * with them undici, which KubeConfig needs for their requests only.
 */
const kubeConfigAlone: Plugin = {
  name: "kube-config-alone",
  setup(bundler) {
    bundler.onResolve({ filter: /./ }, async ({ path, ...from }) => {
      if (from.pluginData === kubeConfigAlone || !isOfClientLibrary(path, from)) return undefined;
      const { pluginData: _, ...options } = from;
      const found = await bundler.resolve(path, { ...options, pluginData: kubeConfigAlone });
      return { ...found, sideEffects: false };
    });
    const namespace = "no-undici";
    bundler.onResolve({ filter: /^undici$/ }, ({ path }) => ({ path, namespace }));
    bundler.onLoad({ filter: /./, namespace }, () => ({
      contents: "export const [Agent, ProxyAgent, Headers, fetch] = [];",
    }));
  },
};

function isOfClientLibrary(path: string, { importer }: { importer: string }): boolean {
  const library = "@kubernetes/client-node";
  return path === library || (path.startsWith(".") && importer.includes(`/${library}/`));
}

/**
 * An import of a module of Node reads every one of its exports, and some are loaded by being read: `node:http` has
 * undici in it, `node:crypto` WebCrypto. Taken as objects they cost what is used of them: 8 MiB less.
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

const plugins = [noNativeAddons, kubeConfigAlone];

const common: BuildOptions = {
  bundle: true,
  platform: "node",
  target: "node24",
  format: "esm",
  minify: true,
  keepNames: true,
  legalComments: "none",
  logLevel: "warning",
  plugins,
  define: {
    "globalThis.PLEXUS_VERSION": JSON.stringify(values.version),
    "globalThis.PLEXUS_COMMIT": JSON.stringify(values.commit),
  },
};

await mkdir("dist", { recursive: true });
if (values.standalone) await buildStandalone();
else {
  await rm("dist/chunks", { recursive: true, force: true });
  await build({
    ...common,
    plugins: [...plugins, builtinsAsObjects],
    entryPoints: { plexusd: "src/daemon/main.ts", plexusctl: "src/cli/main.ts" },
    outdir: "dist",
    // What is imported dynamically, most of the Kubernetes client, is loaded only when it is needed.
    splitting: true,
    chunkNames: "chunks/[name]-[hash]",
  });
}

async function buildStandalone(): Promise<void> {
  const bundle = "dist/.standalone.cjs";
  await build({
    ...common,
    plugins: [...plugins, plainKubeconfigs],
    format: "cjs",
    entryPoints: ["src/standalone/main.ts"],
    outfile: bundle,
  });
  await execa("bun", [
    "build",
    "--compile",
    "--minify",
    "--bytecode",
    bundle,
    "--outfile",
    "dist/plexus-standalone",
  ]);
  await chmod("dist/plexus-standalone", 0o755);
  await rm(bundle);
}
