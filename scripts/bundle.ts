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
 * plexus-standalone rejects kubeconfigs with a program, a proxy or an identity provider, so the modules that
 * the client library loads for these are left out.
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
 * Plexus only uses KubeConfig of the Kubernetes client library, for requests over node:https. The library does
 * not declare its modules free of side effects. Without this plugin, the bundle would have all generated classes
 * and undici.
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
    // Dynamic imports, such as most of the Kubernetes client, are loaded when they are needed.
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
