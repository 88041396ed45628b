import { join, relative } from "node:path";
import { build, type Plugin } from "esbuild";
import { changedText, type SourceChange } from "../safeguards/mutation.ts";
import { repositoryRoot } from "../support/paths.ts";

const product = join(repositoryRoot, "src");
const standIns = join(import.meta.dirname, "node-modules");

/** What the product gets in place of Node's modules, and of its client of the API. */
const replaced: Readonly<Record<string, string>> = {
  "node:fs": join(standIns, "fs.ts"),
  "node:fs/promises": join(standIns, "fs-promises.ts"),
  "node:timers/promises": join(standIns, "timers-promises.ts"),
  "node:crypto": join(standIns, "crypto.ts"),
  [join(product, "kube/api/client.ts")]: join(import.meta.dirname, "api/api-client.ts"),
  [join(product, "kube/api/kubeconfig.ts")]: join(standIns, "kubeconfig.ts"),
};

/** Node's modules are redirected in the product only: a stand-in may use what it stands for. */
const redirect: Plugin = {
  name: "redirect",
  setup(bundler) {
    bundler.onResolve({ filter: /^(node:|#|\.)/ }, ({ path, importer, resolveDir }) => {
      if (importer.includes("node_modules")) return undefined;
      const target = fileOf(path, resolveDir);
      const mayStandIn = importer.startsWith(product) || target.startsWith(product);
      const standIn = mayStandIn ? replaced[target] : undefined;
      if (standIn !== undefined) return { path: standIn };
      return path.startsWith("node:") ? undefined : { path: target };
    });
  },
};

function fileOf(path: string, dir: string): string {
  if (path.startsWith("#")) return join(product, path.slice(1));
  return path.startsWith(".") ? join(dir, path) : path;
}

/**
 * Makes one file of the simulation and the product, with simulated time and chance.
 * @throws Error when the text of a change does not occur exactly once
 */
export async function bundleSimulation(outfile: string, change?: SourceChange): Promise<void> {
  await build({
    entryPoints: [join(import.meta.dirname, "entry.ts")],
    outfile,
    bundle: true,
    platform: "node",
    target: "node24",
    format: "cjs",
    logLevel: "warning",
    inject: [join(standIns, "globals.ts")],
    define: {
      "Math.random": "simulatedRandom",
      "process.hrtime.bigint": "simulatedHrtime",
      "globalThis.PLEXUS_VERSION": '"simulated"',
      "globalThis.PLEXUS_COMMIT": '"none"',
    },
    plugins: [redirect, ...(change === undefined ? [] : [changed(change)])],
  });
}

function changed(change: SourceChange): Plugin {
  return {
    name: "changed",
    setup(bundler) {
      bundler.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        if (relative(repositoryRoot, path) !== change.file) return undefined;
        return { contents: await changedText(change), loader: "ts" };
      });
    },
  };
}
