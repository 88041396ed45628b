import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";

/** A watch of a directory. */
export interface DirectoryWatch {
  /** Watches the directory now at the path. Call it regularly: its replacement is not reported. */
  rearm(): Promise<void>;
  close(): void;
}

/**
 * Calls `onEvent` with the name in the directory that changed. Only a hint: the directory may be
 * absent, or inotify instances exhausted, so callers must also check regularly.
 */
export async function watchDirectory(
  dir: string,
  onEvent: (name: string | null) => void,
): Promise<DirectoryWatch> {
  let watcher: FSWatcher | undefined;
  let watched: string | undefined;
  let closed = false;
  const drop = (): void => {
    watcher?.close();
    watcher = undefined;
    watched = undefined;
  };
  const rearm = async (): Promise<void> => {
    const found = await identityOf(dir);
    if (closed || (watcher !== undefined && found === watched)) return;
    drop();
    if (found === undefined) return;
    try {
      watcher = watch(dir, { persistent: false }, (_, name) => onEvent(name)).on("error", drop);
      watched = found;
    } catch {
      // Callers check regularly.
    }
  };
  await rearm();
  return {
    rearm,
    close: () => {
      closed = true;
      drop();
    },
  };
}

/** Identifies a directory, even when a new one reuses the inode number. */
async function identityOf(dir: string): Promise<string | undefined> {
  const found = await stat(dir, { bigint: true }).catch(() => undefined);
  return found === undefined ? undefined : `${found.dev}:${found.ino}:${found.birthtimeNs}`;
}
