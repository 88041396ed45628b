import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";

/** A directory being watched. */
export interface DirectoryWatch {
  /**
   * Makes sure that it is the directory at this path that is watched: it may have been made, or
   * replaced, since. To be called now and then, as a watch does not report its own loss.
   */
  rearm(): Promise<void>;
  close(): void;
}

/**
 * Calls `onEvent` when anything changes in a directory. It is a hint, not a promise: the directory
 * may be absent and inotify instances run out, so whoever relies on it looks by itself as well.
 */
export async function watchDirectory(dir: string, onEvent: () => void): Promise<DirectoryWatch> {
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
      watcher = watch(dir, { persistent: false }, onEvent).on("error", drop);
      watched = found;
    } catch {
      drop();
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

/** Distinguishes a directory from another one at its path, also when that got the inode number of the first. */
async function identityOf(dir: string): Promise<string | undefined> {
  const found = await stat(dir, { bigint: true }).catch(() => undefined);
  return found === undefined ? undefined : `${found.dev}:${found.ino}:${found.birthtimeNs}`;
}
