import { mkdir, readFile, rm, rmdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { CliStreams } from "#cli/command.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";

/*
 * The shim executes plugins from the directories that the container runtime names and from those
 * that this file lists. The file is on the host, writable by root only, and never mounted into
 * plexusd, so that a compromised plexusd cannot add a directory with a program of its choice.
 */

const head = "# Written by plexusctl install: directories, besides the container runtime's, that";
const secondLine = "# plexus executes plugins from. They must be writable by root alone.";

/**
 * Makes the file list only this directory. Never changes a foreign file.
 * @throws Error when that file lacks the directory, or it cannot be listed
 */
export async function listPluginDir(
  path: string,
  { dir, output }: { readonly dir: string; readonly output: CliStreams },
): Promise<void> {
  refuseUnlistable(dir);
  const before = await readFile(path, "utf8").catch(() => undefined);
  if (before !== undefined && !before.startsWith(head)) {
    if (!before.split("\n").includes(dir)) {
      throw new Error(
        `${path} was not written by plexusctl and does not list ${dir}: add it there, or remove the file`,
      );
    }
    output.out(`${path}: already lists ${dir}`);
  } else {
    await mkdir(dirname(path), { recursive: true, mode: 0o755 });
    await atomicWrite(path, `${[head, secondLine, dir].join("\n")}\n`, { mode: 0o644 });
    output.out(`${path}: lists ${dir}`);
  }
  await warnIfOpen(dir, output);
}

/** The directories that the file lists; none without the file. */
export async function listedPluginDirs(path: string): Promise<string[]> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text.split("\n").filter((line) => line.startsWith("/"));
}

/** Removes the file if plexusctl wrote it, and its directory if it is then empty. */
export async function removePluginDirs(path: string, output: CliStreams): Promise<void> {
  const text = await readFile(path, "utf8").catch(() => "");
  if (!text.startsWith(head)) return;
  await rm(path);
  output.out(`${path}: removed`);
  // There may be other files, and in a container it is a mount point.
  await rmdir(dirname(path)).catch(() => undefined);
}

/** The file has one directory per line, and the shim joins them with colons. */
function refuseUnlistable(dir: string): void {
  if (/^\/[^:\n]*$/.test(dir)) return;
  throw new Error(
    `${JSON.stringify(dir)} cannot be listed as a plugin directory: it must be an absolute path without colon or line break`,
  );
}

/** In the init container the directory is usually not mounted and cannot be checked. */
async function warnIfOpen(dir: string, output: CliStreams): Promise<void> {
  const found = await stat(dir).catch(() => undefined);
  if (found === undefined || (found.uid === 0 && (found.mode & 0o022) === 0)) return;
  output.err(`${dir}: the shim refuses its plugins until only root can write there`);
}
