import { lstat, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { elapsedMs } from "#lib/elapsed.ts";
import { parseStateFileName, type StateFile } from "#lib/files/state-files.ts";
import { makeEmpty, removeIfPresent } from "./state-file.ts";

/** The age from which a temporary or lock file no longer belongs to the process that made it. */
const abandonedAfterMs = 600_000;
/** How long a repeated DEL can be answered without an engine. */
const tombstoneLifetimeMs = 6 * 3_600_000;

/** Options of {@link sweepStateDirectory}. */
interface SweepOptions {
  /** The most that are kept, so that a node with many short-lived pods keeps its inodes. @default 4096 */
  readonly tombstonesMax?: number;
}

/** A swept file. */
interface FoundFile {
  readonly path: string;
  readonly file: StateFile;
  readonly ageMs: number;
  readonly inode: number;
  readonly isEmpty: boolean;
}

/**
 * Removes from a state directory what no process has a use for: tombstones that are old or too many,
 * temporary files that a crash left, and locks of sandboxes that have no record and that nobody holds.
 * A tombstone whose content a crash left is emptied. Records and what was put aside stay. A file that cannot be removed is left for the next time.
 */
export async function sweepStateDirectory(
  dir: string,
  { tombstonesMax = 4096 }: SweepOptions = {},
): Promise<void> {
  const names = await readdir(dir);
  const files = (await Promise.all(names.map((name) => found(dir, name)))).flatMap((each) =>
    each === undefined ? [] : [each],
  );
  const tombstones = files.filter(({ file }) => file.kind === "tombstone");
  const removable = [
    ...files.filter(({ file, ageMs }) => file.kind === "temporary" && ageMs > abandonedAfterMs),
    ...oldTombstones(
      tombstones.filter(({ isEmpty }) => isEmpty),
      tombstonesMax,
    ),
    ...(await abandonedLocks(files)),
  ];
  const crashed = tombstones.filter(({ isEmpty }) => !isEmpty);
  await Promise.allSettled([
    ...removable.map(async ({ path }) => removeIfPresent(path)),
    ...crashed.map(async ({ path }) => makeEmpty(path)),
  ]);
}

async function found(dir: string, name: string): Promise<FoundFile | undefined> {
  const file = parseStateFileName(name);
  const path = join(dir, name);
  const status = file === undefined ? undefined : await lstat(path).catch(() => undefined);
  if (file === undefined || status === undefined) return undefined;
  const { mtimeMs, ino, size } = status;
  return { path, file, ageMs: elapsedMs(mtimeMs), inode: ino, isEmpty: size === 0 };
}

function oldTombstones(tombstones: readonly FoundFile[], max: number): FoundFile[] {
  const newestFirst = tombstones.toSorted((a, b) => a.ageMs - b.ageMs);
  return newestFirst.filter(({ ageMs }, i) => ageMs > tombstoneLifetimeMs || i >= max);
}

async function abandonedLocks(files: readonly FoundFile[]): Promise<FoundFile[]> {
  const inUse = new Set(files.flatMap(({ file }) => ("ifName" in file ? [file.containerId] : [])));
  const candidates = files.filter(
    ({ file, ageMs }) =>
      file.kind === "sandbox-lock" && ageMs > abandonedAfterMs && !inUse.has(file.containerId),
  );
  if (candidates.length === 0) return [];
  const locked = await lockedInodes();
  return locked === undefined ? [] : candidates.filter(({ inode }) => !locked.has(inode));
}

/**
 * The inodes of all locked files, of any file system; undefined when the kernel does not say. It
 * shows a container only the locks of its own processes, but every open-file-description lock, which
 * each operation on a sandbox has, too (shim/lock.c).
 */
async function lockedInodes(): Promise<ReadonlySet<number> | undefined> {
  const text = await readFile("/proc/locks", "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const inodes = text.matchAll(/ [0-9a-f]+:[0-9a-f]+:(\d+) /g);
  return new Set(Array.from(inodes, ([, inode]) => Number(inode)));
}
