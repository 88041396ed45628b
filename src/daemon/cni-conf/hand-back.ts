import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { ConfFiles } from "#engine/ports/host.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { readTextFile } from "#lib/files/read-file.ts";
import { syncDirectory } from "#lib/files/sync.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { findCandidates, findFile } from "./candidates.ts";
import { isPlexusConfName, readCniConfDir } from "./conf-dir.ts";
import { PreviousPrimary } from "./previous-primary.ts";
import { isCurrentCopy } from "./status.ts";

/** Where the container runtime's and the primary CNI's configurations are. */
export interface HandBackPaths {
  readonly cniConfDir: string;
  readonly primaryDir: string;
  readonly stateDir: string;
}

/** The file that the container runtime uses without Plexus and its list's name, or why there is none. */
export type HandBackTarget =
  | { readonly file: string; readonly name: string; readonly warning?: string }
  | { readonly problem: string };

/** Finds the file to hand the node back to: the previous primary, else the first usable one. */
export async function findHandBackTarget(
  { cniConfDir, primaryDir, stateDir }: HandBackPaths,
  { binDirs, files }: { readonly binDirs: readonly string[]; readonly files: ConfFiles },
): Promise<HandBackTarget> {
  const { text } = await readCniConfDir(cniConfDir, files);
  const previous = new PreviousPrimary(stateDir);
  previous.load(text);
  const candidates = await findCandidates({ dir: primaryDir, binDirs, files });
  const known = findFile(candidates, previous.file);
  const usable = [known, ...candidates].find((each) => each?.kind === "usable");
  if (usable?.kind === "usable") {
    const { file, list, warning } = usable;
    return omitUndefined({ file, name: list.name, warning });
  }
  const why = known?.kind === "unusable" ? known.problem : "there is none";
  const problem = `no usable configuration of a primary CNI in ${primaryDir} (${why}): the node would have no network`;
  return { problem };
}

/** Copies the primary CNI's file to where the container runtime looks. Returns its path there. */
export async function restorePrimary(
  { cniConfDir, primaryDir }: HandBackPaths,
  file: string,
): Promise<string | undefined> {
  if (primaryDir === cniConfDir) return undefined;
  const text = readTextFile(join(primaryDir, file), "any");
  const target = join(cniConfDir, file);
  await atomicWrite(target, text, { mode: 0o644 });
  return target;
}

/**
 * Removes Plexus's file and its renamed copies (`.cilium_bak`): an agent may rename them back. Then
 * also what is still a copy of it with an agent's plugin: the container runtime would use it. An
 * agent that runs makes another one, of the primary CNI's file. Returns the paths that were removed.
 */
export async function removePlexusConf(cniConfDir: string, files: ConfFiles): Promise<string[]> {
  const { conf } = await readCniConfDir(cniConfDir, files);
  const removed: string[] = [];
  const remove = async (name: string): Promise<void> => {
    await rm(join(cniConfDir, name), { force: true });
    removed.push(join(cniConfDir, name));
  };
  for (const name of (await files.list(cniConfDir)).filter(isPlexusConfName)) await remove(name);
  const { copies } = await readCniConfDir(cniConfDir, files);
  for (const copy of copies) if (isCurrentCopy(copy, { conf })) await remove(copy.name);
  if (removed.length > 0) await syncDirectory(cniConfDir);
  return removed;
}
