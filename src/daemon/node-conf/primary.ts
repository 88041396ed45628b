import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { NetConfList } from "#cni/conf/conf.ts";
import { loadNetworkFile } from "#cni/conf/load.ts";
import type { ConfFiles } from "#engine/ports.ts";
import { isMetaPluginType } from "#npwg/meta-plugins.ts";

/** A configuration file that may be the primary CNI's. */
export interface Candidate {
  readonly file: string;
  /** What it says, when it can be used. */
  readonly list?: NetConfList;
  /** Why it cannot be used (yet). */
  readonly problem?: string;
}

/** Where to look. */
export interface PrimarySearch {
  readonly dir: string;
  /** Where its plugins must be. */
  readonly binDirs: readonly string[];
  readonly files: ConfFiles;
}

const confExtensions = [".conf", ".conflist", ".json"];

/** The configuration that makes the container runtime call Plexus. */
export const ownFileName = "00-plexus.conflist";

/** Whether a container runtime takes a file of this name for a network configuration. */
export function isConfFile(name: string): boolean {
  return confExtensions.some((extension) => name.endsWith(extension));
}

/**
 * Every file that a container runtime would consider, in its order, but our own and those of
 * meta-plugins: these are told by their plugins' types, whatever their names.
 */
export async function findCandidates(search: PrimarySearch): Promise<Candidate[]> {
  const all = await search.files.list(search.dir);
  const names = all.filter((name) => isConfFile(name) && name !== ownFileName);
  const examined = await Promise.all(names.map((name) => examine(name, search)));
  return examined.filter((candidate) => candidate !== undefined);
}

/** A value that is the same as long as the candidates and what is known of them are. */
export function fingerprintOf(candidates: readonly Candidate[]): string {
  const hash = createHash("sha256");
  for (const { file, list, problem } of candidates) {
    hash.update(JSON.stringify([file, list?.raw ?? null, problem ?? null]));
  }
  return hash.digest("hex");
}

async function examine(file: string, search: PrimarySearch): Promise<Candidate | undefined> {
  let list: NetConfList;
  try {
    const options = { files: search.files, onWarning: (): void => undefined };
    list = await loadNetworkFile(join(search.dir, file), options);
  } catch (error) {
    return { file, problem: error instanceof Error ? error.message : String(error) };
  }
  if (list.plugins.some((plugin) => isMetaPluginType(plugin.type))) return undefined;
  const problem = await missingPlugins(list, search.binDirs);
  return problem === undefined ? { file, list } : { file, problem };
}

async function missingPlugins(
  list: NetConfList,
  binDirs: readonly string[],
): Promise<string | undefined> {
  const types = [...new Set(list.plugins.map((plugin) => plugin.type))];
  const found = await Promise.all(types.map((type) => isInstalled(type, binDirs)));
  const missing = types.filter((_, index) => found[index] === false);
  if (missing.length === 0) return undefined;
  return `its plugins are not all there: ${missing.join(", ")} not found in ${binDirs.join(", ")}`;
}

async function isInstalled(type: string, binDirs: readonly string[]): Promise<boolean> {
  for (const dir of binDirs) {
    const found = await stat(join(dir, type)).catch(() => undefined);
    if (found?.isFile() === true && (found.mode & 0o111) !== 0) return true;
  }
  return false;
}
