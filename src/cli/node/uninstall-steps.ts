import { lstat, readdir, readFile, rm, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { CliOutput } from "#cli/command.ts";
import { isRenamedPlexusConf } from "#daemon/cni-conf/plexus-conf.ts";
import { atomicWrite, syncDirectory } from "#lib/files/atomic-write.ts";
import { executableNames, plexusConfName } from "#lib/files/default-paths.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { isSocketFileName, parseStateFileName } from "#lib/files/state-files.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";
import { removePluginDirs } from "./plugin-dirs.ts";

/** Where everything of Plexus is on a node. */
export interface UninstallPaths {
  readonly cniConfDir: string;
  readonly primaryDir: string;
  readonly binDir: string;
  readonly stateDir: string;
  readonly socket: string;
  /** The list that `plexusctl install` wrote. */
  readonly pluginDirsFile: string;
}

/** Where the primary has a directory of its own, its file is put where the container runtime looks. */
export async function restorePrimary(
  paths: UninstallPaths,
  { file, output }: { file: string; output: CliOutput },
): Promise<void> {
  if (paths.primaryDir === paths.cniConfDir) return;
  const text = await readFile(join(paths.primaryDir, file));
  const target = join(paths.cniConfDir, file);
  await atomicWrite(target, text, { mode: 0o644 });
  output.out(`${target}: restored`);
}

/**
 * Our configuration goes first; what the primary needs is in place by now. Copies that somebody
 * renamed (`.cilium_bak`) go too, before they are renamed back.
 */
export async function removePlexusConf(paths: UninstallPaths, output: CliOutput): Promise<void> {
  const names = await readdir(paths.cniConfDir).catch(() => []);
  const ours = names.filter((name) => name === plexusConfName || isRenamedPlexusConf(name));
  for (const name of ours.sort()) await removeFile(join(paths.cniConfDir, name), output);
  if (ours.length > 0) await syncDirectory(paths.cniConfDir);
}

/**
 * Executables, socket and state. Only files that are known to be ours, as a directory may be given
 * wrongly; a directory that is empty then goes too.
 */
export async function removeNodeFiles(paths: UninstallPaths, output: CliOutput): Promise<void> {
  for (const name of Object.values(executableNames)) {
    await removeFile(join(paths.binDir, name), output);
  }
  const socketDir = dirname(paths.socket);
  for (const name of await readdir(socketDir).catch(() => [])) {
    const isOurs = isSocketFileName(name, basename(paths.socket));
    if (isOurs) await removeFile(join(socketDir, name), output);
  }
  await removeDirIfEmpty(socketDir, output);
  await removePluginDirs(paths.pluginDirsFile, output);
  await removeStandaloneFiles(paths.stateDir, output);
  for (const name of await readdir(paths.stateDir).catch(() => [])) {
    const isOurs = parseStateFileName(name) !== undefined;
    if (isOurs) await removeFile(join(paths.stateDir, name), output);
  }
  await removeDirIfEmpty(paths.stateDir, output);
}

/** What plexusd kept for plexus-standalone; credentials are among it. */
async function removeStandaloneFiles(stateDir: string, output: CliOutput): Promise<void> {
  const { dir, config, kubeconfig } = standalonePaths(stateDir);
  const ours = [basename(config), basename(kubeconfig)];
  for (const name of await readdir(dir).catch(() => [])) {
    if (ours.includes(targetOfTemporaryName(name) ?? name))
      await removeFile(join(dir, name), output);
  }
  await removeDirIfEmpty(dir, output);
}

async function removeFile(path: string, output: CliOutput): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined) return;
  await rm(path, { force: true });
  output.out(`${path}: removed`);
}

/** In a container the directory is a mount point and stays, empty. */
async function removeDirIfEmpty(path: string, output: CliOutput): Promise<void> {
  try {
    await rmdir(path);
    output.out(`${path}: removed`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOTEMPTY") output.err(`${path}: left, as there are foreign files in it`);
    else if (code !== "ENOENT" && code !== "EBUSY" && code !== "EROFS") throw error;
  }
}
