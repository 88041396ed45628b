import { lstat, readdir, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Logger } from "#engine/ports.ts";
import type { RecordStore } from "#engine/record-store.ts";
import { isSocketFileName } from "#lib/state-files.ts";

const intervalMs = 600_000;
/** A socket has its temporary name for a moment only; one of this age was left by a crash. */
const abandonedAfterMs = 600_000;

/** Options of {@link startSweeper}. */
export interface SweeperOptions {
  readonly records: Pick<RecordStore, "sweep">;
  readonly socketPath: string;
  readonly logger: Logger;
}

/**
 * Removes what earlier processes left in the state directory and beside the socket, now and every ten
 * minutes, so that neither fills up over the life of a node. What cannot be removed is logged.
 */
export function startSweeper(options: SweeperOptions): Disposable {
  const sweep = async (): Promise<void> => {
    try {
      await Promise.all([options.records.sweep(), sweepSockets(options.socketPath)]);
    } catch (error) {
      options.logger.warn({ err: error }, "what earlier processes left could not be removed");
    }
  };
  void sweep();
  const timer = setInterval(() => void sweep(), intervalMs).unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

/** Removes the sockets that a crash of plexusd left between binding and renaming. */
export async function sweepSockets(socketPath: string): Promise<void> {
  const [dir, socketName] = [dirname(socketPath), basename(socketPath)];
  for (const name of await readdir(dir)) {
    if (name === socketName || !isSocketFileName(name, socketName)) continue;
    const path = join(dir, name);
    const status = await lstat(path).catch(() => undefined);
    const isAbandoned = status?.isSocket() && Date.now() - status.mtimeMs > abandonedAfterMs;
    if (isAbandoned) await unlink(path);
  }
}
