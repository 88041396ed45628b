import { lstat, readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { elapsedMs } from "#lib/elapsed.ts";
import { adminSocketName, isTemporarySocketName } from "#lib/files/state-files.ts";

/** A socket has its name of its own for a moment only, before it is renamed. */
const abandonedAfterMs = 600_000;

/** Removes the sockets that a daemon was killed before it could rename. @throws Error as of node:fs */
export async function sweepSockets(socketPath: string): Promise<void> {
  const name = basename(socketPath);
  const names = await readdir(dirname(socketPath));
  const temporary = names.filter((each) =>
    [name, adminSocketName(name)].some((socket) => isTemporarySocketName(each, socket)),
  );
  for (const path of temporary.map((each) => join(dirname(socketPath), each))) {
    const found = await lstat(path).catch(() => undefined);
    if (found?.isSocket() !== true || elapsedMs(found.mtimeMs) < abandonedAfterMs) continue;
    await rm(path, { force: true });
  }
}
