import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The checkout. */
export const repositoryRoot = join(dirname(fileURLToPath(import.meta.url)), "../..");

/** The Node that the project pins, whatever the shell's is. */
export function nodeBinary(): string {
  return join(repositoryRoot, "node_modules/.bin/node");
}

/** Where the reference plugins are: CNI_PLUGIN_DIR, /opt/cni/bin or Debian's place. */
export function cniPluginDir(): string {
  const candidates = [process.env.CNI_PLUGIN_DIR, "/opt/cni/bin", "/usr/lib/cni"];
  const found = candidates.find((dir) => dir !== undefined && existsSync(join(dir, "host-local")));
  if (found === undefined)
    throw new Error("the CNI reference plugins are missing: run `make deps`");
  return found;
}

/** A file that `make build` made; PLEXUS_DIST names another directory than dist/. */
export function distPath(name: string): string {
  const path = join(process.env.PLEXUS_DIST ?? join(repositoryRoot, "dist"), name);
  if (!existsSync(path)) throw new Error(`${path} is missing: run \`make build\``);
  return path;
}
