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

/**
 * Hands the node back, and returns what it has changed: one line each. The primary CNI's file is where
 * the container runtime looks before Plexus's is removed, so that an interruption leaves one of them.
 * The renamed copies of that (`.cilium_bak`) go too, as an agent may rename them back; then what is
 * still a copy of it with an agent's plugin: the container runtime would use it. An agent that runs
 * makes another one, of the primary CNI's file.
 * @param options.primary the primary CNI's file; undefined without one
 */
export async function handBack(
  { cniConfDir, primaryDir }: HandBackPaths,
  { primary, files }: { readonly primary: string | undefined; readonly files: ConfFiles },
): Promise<string[]> {
  const changes: string[] = [];
  if (primary !== undefined && primaryDir !== cniConfDir) {
    const target = join(cniConfDir, primary);
    await atomicWrite(target, readTextFile(join(primaryDir, primary), "any"), { mode: 0o644 });
    changes.push(`${target}: restored`);
  }
  const remove = async (name: string): Promise<void> => {
    await rm(join(cniConfDir, name), { force: true });
    changes.push(`${join(cniConfDir, name)}: removed`);
  };
  const { conf } = await readCniConfDir(cniConfDir, files);
  for (const name of (await files.list(cniConfDir)).filter(isPlexusConfName)) await remove(name);
  const { copies } = await readCniConfDir(cniConfDir, files);
  for (const copy of copies) if (isCurrentCopy(copy, { conf })) await remove(copy.name);
  if (changes.length > 0) await syncDirectory(cniConfDir);
  return changes;
}
