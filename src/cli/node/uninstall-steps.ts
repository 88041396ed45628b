import { readdir, rm, rmdir } from "node:fs/promises";
import { basename, join, parse } from "node:path";
import type { CliStreams } from "#cli/command.ts";
import { stateFilesIn } from "#cli/inspect/node-state.ts";
import type { HandBackPaths } from "#daemon/cni-conf/hand-back.ts";
import { executableNames } from "#lib/files/default-paths.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { isSocketFileName } from "#lib/files/state-files.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";
import { removePluginDirs } from "./plugin-dirs.ts";
import { reportPlugins } from "./reference-plugins.ts";

/** Where Plexus keeps its files on a node. */
export interface UninstallPaths extends HandBackPaths {
  readonly binDir: string;
  readonly socket: string;
  readonly pluginDirsFile: string;
}

/**
 * Removes files by name, as a flag may name a wrong directory, and directories that get empty. The
 * executables last: until then, the command can be repeated.
 */
export async function removeNodeFiles(paths: UninstallPaths, output: CliStreams): Promise<void> {
  const { dir: socketDir, base: socket } = parse(paths.socket);
  const { dir: standaloneDir, ...files } = standalonePaths(paths.stateDir);
  const standalone = Object.values(files).map((path) => basename(path));
  const state = await stateFilesIn(paths.stateDir);
  const executables: readonly string[] = Object.values(executableNames);
  await removePluginDirs(paths.pluginDirsFile, output);
  await reportPlugins(paths.binDir, output);
  const removed: readonly (readonly [dir: string, isOurs: (name: string) => boolean])[] = [
    [socketDir, (name) => isSocketFileName(name, socket)],
    [standaloneDir, (name) => standalone.includes(targetOfTemporaryName(name) ?? name)],
    [paths.stateDir, (name) => state.includes(name)],
    [paths.binDir, (name) => executables.includes(name)],
  ];
  for (const [dir, isOurs] of removed) {
    const names = (await readdir(dir).catch(() => [])).filter(isOurs).toSorted();
    for (const path of names.map((name) => join(dir, name))) {
      await rm(path, { force: true });
      output.out(`${path}: removed`);
    }
    if (dir !== paths.binDir) await removeIfEmpty(dir, output);
  }
}

/** In a container the directory is a mount point and stays, empty. */
async function removeIfEmpty(dir: string, output: CliStreams): Promise<void> {
  try {
    await rmdir(dir);
    output.out(`${dir}: removed`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOTEMPTY") output.err(`${dir}: not removed: there are foreign files in it`);
    else if (code !== "ENOENT" && code !== "EBUSY" && code !== "EROFS") throw error;
  }
}
