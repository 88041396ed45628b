import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { NetConfList } from "#cni/conf/conf.ts";
import { loadNetworkFile } from "#cni/conf/load.ts";
import type { ConfFiles } from "#engine/ports.ts";
import { errorMessage } from "#lib/error-message.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { isMetaPluginType } from "#npwg/meta-plugins.ts";

/** A configuration file that may be the primary CNI's. */
export type PrimaryCandidate =
  | { readonly kind: "usable"; readonly file: string; readonly list: NetConfList }
  /** It cannot be used (yet). */
  | { readonly kind: "unusable"; readonly file: string; readonly problem: string };

/** Where the primary CNI's configuration is looked for. */
export interface PrimarySearch {
  readonly dir: string;
  /** Where its plugins must be. */
  readonly binDirs: readonly string[];
  readonly files: ConfFiles;
}

const confExtensions = [".conf", ".conflist", ".json"];

/** Whether a container runtime takes a file of this name for a network configuration. */
export function isConfFile(name: string): boolean {
  return confExtensions.some((extension) => name.endsWith(extension));
}

/**
 * Every file that a container runtime would consider, in its order, but our own and those of
 * meta-plugins: these are recognized by their plugins' types, whatever their names.
 */
export async function findCandidates(search: PrimarySearch): Promise<PrimaryCandidate[]> {
  const all = await search.files.list(search.dir);
  const names = all.filter((name) => isConfFile(name) && name !== plexusConfName);
  const examined = await Promise.all(names.map((name) => examine(name, search)));
  return examined.filter((candidate) => candidate !== undefined);
}

async function examine(file: string, search: PrimarySearch): Promise<PrimaryCandidate | undefined> {
  let list: NetConfList;
  try {
    const options = { files: search.files, onWarning: (): void => undefined };
    list = await loadNetworkFile(join(search.dir, file), options);
  } catch (error) {
    return { kind: "unusable", file, problem: errorMessage(error) };
  }
  if (list.plugins.some((plugin) => isMetaPluginType(plugin.type))) return undefined;
  const problem = await missingPlugins(list, search.binDirs);
  return problem === undefined
    ? { kind: "usable", file, list }
    : { kind: "unusable", file, problem };
}

/** Which of a network's plugins are not installed, one sentence; undefined when all are. */
export async function missingPlugins(
  list: NetConfList,
  binDirs: readonly string[],
): Promise<string | undefined> {
  const types = [...new Set(list.plugins.map((plugin) => plugin.type))];
  const found = await Promise.all(types.map((type) => isInstalled(type, binDirs)));
  const missing = types.filter((_, index) => found[index] === false);
  if (missing.length === 0) return undefined;
  const searched = (await Promise.all(binDirs.map(asSearched))).join(", ");
  return `its plugins are not all there: ${missing.join(", ")} not found in ${searched}`;
}

/** plexusd sees only what is mounted into its container. */
async function asSearched(dir: string): Promise<string> {
  const found = await stat(dir).catch(() => undefined);
  return found === undefined ? `${dir} (absent, or not mounted into plexusd's container)` : dir;
}

/** Whether one of the directories has an executable of this name. */
export async function isInstalled(type: string, binDirs: readonly string[]): Promise<boolean> {
  for (const dir of binDirs) {
    const found = await stat(join(dir, type)).catch(() => undefined);
    if (found?.isFile() === true && (found.mode & 0o111) !== 0) return true;
  }
  return false;
}
