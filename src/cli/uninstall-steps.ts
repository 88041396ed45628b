import { lstat, readdir, readFile, rm, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { primaryMemoryName } from "#daemon/node-conf/memory.ts";
import { ownFileName } from "#daemon/node-conf/primary.ts";
import { atomicWrite, syncDirectory, temporarySuffix } from "#lib/atomic-write.ts";
import type { CliOutput } from "./command.ts";

/** Where everything of Plexus lies on a node. */
export interface UninstallPaths {
  readonly cniConfDir: string;
  readonly primaryDir: string;
  readonly binDir: string;
  readonly stateDir: string;
  readonly socket: string;
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
export async function removeOwnConf(paths: UninstallPaths, output: CliOutput): Promise<void> {
  const names = await readdir(paths.cniConfDir).catch(() => []);
  const ours = names.filter((name) => name === ownFileName || name.startsWith(`${ownFileName}.`));
  for (const name of ours.sort()) await removeFile(join(paths.cniConfDir, name), output);
  if (ours.length > 0) await syncDirectory(paths.cniConfDir);
}

/**
 * Executables, socket and state. Only files that are known to be ours, as a directory may be given
 * wrongly; a directory that is empty then goes too.
 */
export async function removeOwnFiles(paths: UninstallPaths, output: CliOutput): Promise<void> {
  for (const name of ["plexus", "plexus-standalone"]) {
    await removeFile(join(paths.binDir, name), output);
  }
  const socketDir = dirname(paths.socket);
  for (const name of await readdir(socketDir).catch(() => [])) {
    if (isSocketFile(name, basename(paths.socket))) await removeFile(join(socketDir, name), output);
  }
  await removeDirIfEmpty(socketDir, output);
  for (const name of await readdir(paths.stateDir).catch(() => [])) {
    if (isStateFile(name)) await removeFile(join(paths.stateDir, name), output);
  }
  await removeDirIfEmpty(paths.stateDir, output);
}

/** A daemon binds its socket as `<name>.<pid>` before it takes the name. */
function isSocketFile(name: string, socket: string): boolean {
  return (
    name === socket ||
    (name.startsWith(`${socket}.`) && /^\d+$/.test(name.slice(socket.length + 1)))
  );
}

/** Records and plans are `<containerID>@<ifName>.<kind>`, a sandbox's lock `<containerID>.lock`. */
function isStateFile(name: string): boolean {
  if (name === primaryMemoryName || name === ".gc.lock") return true;
  if (name.startsWith(".")) return name.endsWith(temporarySuffix);
  return (
    /^[^@]+@.+\.(json|teardown|teardown\.tmp)$/.test(name) ||
    /^[A-Za-z0-9][\w.-]*\.lock$/.test(name)
  );
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
