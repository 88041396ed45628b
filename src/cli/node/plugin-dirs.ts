import { mkdir, readFile, rm, rmdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { CliOutput } from "#cli/command.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";

/*
 * The shim executes plugins from the directories that the container runtime names and from those that
 * this file lists, which is on the host, root's alone, and never mounted into plexusd: whoever takes
 * plexusd over cannot add the directory of a program of his own.
 */

const head = "# Written by plexusctl install: directories, besides the container runtime's, that";
const secondLine = "# plexus executes plugins from. They must be writable by root alone.";

/**
 * Has the file list these directories, and no others; without any there is no file. One that somebody
 * else wrote is left alone.
 * @throws Error when it has to be changed and is not ours, or a directory cannot be listed
 */
export async function listPluginDirs(
  path: string,
  { dirs, output }: { readonly dirs: readonly string[]; readonly output: CliOutput },
): Promise<void> {
  for (const dir of dirs) refuseUnlistable(dir);
  const before = await readFile(path, "utf8").catch(() => undefined);
  if (dirs.length === 0) return removePluginDirs(path, output);
  if (before !== undefined && !isOurs(before)) {
    const missing = dirs.filter((dir) => !before.split("\n").includes(dir));
    if (missing.length > 0) throw notOurs(path, missing);
    output.out(`${path}: lists ${dirs.join(", ")} already`);
  } else {
    await mkdir(dirname(path), { recursive: true, mode: 0o755 });
    await atomicWrite(path, `${[head, secondLine, ...dirs].join("\n")}\n`, { mode: 0o644 });
    output.out(`${path}: lists ${dirs.join(", ")}`);
  }
  for (const dir of dirs) await reportOpenDir(dir, output);
}

/** The directories that the file lists, whoever wrote it; none without it. */
export async function listedPluginDirs(path: string): Promise<string[]> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text.split("\n").filter((line) => line.startsWith("/"));
}

/** Removes the file if it is ours, and its directory if nothing else is in it. */
export async function removePluginDirs(path: string, output: CliOutput): Promise<void> {
  const text = await readFile(path, "utf8").catch(() => undefined);
  if (text === undefined || !isOurs(text)) return;
  await rm(path);
  output.out(`${path}: removed`);
  // There may be other files, and in a container it is a mount point.
  await rmdir(dirname(path)).catch(() => undefined);
}

function isOurs(text: string): boolean {
  return text.startsWith(head);
}

function notOurs(path: string, missing: readonly string[]): Error {
  const list = missing.join(", ");
  return new Error(
    `${path} was not written by plexusctl and does not list ${list}: add it there, or remove the file`,
  );
}

/** The file has a directory on each line; the shim joins them with colons. */
function refuseUnlistable(dir: string): void {
  if (/^\/[^:\n]*$/.test(dir)) return;
  throw new Error(
    `${JSON.stringify(dir)} cannot be listed as a plugin directory: it must be an absolute path without colon or line break`,
  );
}

/** In the init container a directory is usually not mounted: then nothing can be said of it. */
async function reportOpenDir(dir: string, output: CliOutput): Promise<void> {
  const found = await stat(dir).catch(() => undefined);
  if (found === undefined || (found.uid === 0 && (found.mode & 0o022) === 0)) return;
  output.err(`${dir}: plugins in it are refused as long as others than root can write there`);
}
