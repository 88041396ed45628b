import { lstat, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { elapsedMs } from "#lib/elapsed.ts";
import {
  parseStateFileName,
  type RecordKey,
  recordFileName,
  type StateFile,
  sandboxLockName,
} from "#lib/files/state-files.ts";
import { isSandboxLocked, lockedInodes } from "./sandbox-in-use.ts";
import { isPresent, makeEmpty } from "./state-file.ts";

/** The age from which a temporary file beside a record, a lock or a mark is abandoned. */
const abandonedAfterMs = 600_000;
/** How long the shim can answer a repeated DEL without an engine. */
const tombstoneLifetimeMs = 6 * 3_600_000;

interface FoundFile {
  readonly path: string;
  readonly file: StateFile;
  readonly ageMs: number;
  readonly inode: number;
  readonly isEmpty: boolean;
}

/**
 * Cleans up a state directory: old or excess tombstones, abandoned temporary files, and unused
 * locks and marks of sandboxes without a record. Empties tombstones whose content a crash left. Records and
 * damaged records stay. A file that cannot be removed is left for the next time.
 * @param tombstonesMax tombstones to keep: many short-lived pods must not use up all inodes
 */
export async function sweepStateDirectory(dir: string, tombstonesMax = 4096): Promise<void> {
  const names = await readdir(dir);
  const found = await Promise.all(names.map((name) => examine(dir, name)));
  const files = found.filter((file) => file !== undefined);
  const tombstones = files.filter(({ file }) => file.kind === "tombstone");
  const crashed = tombstones.filter(({ isEmpty }) => !isEmpty);
  const newestFirst = tombstones
    .filter(({ isEmpty }) => isEmpty)
    .toSorted((a, b) => a.ageMs - b.ageMs);
  const removable = [
    ...(await abandonedTemporaryFiles(dir, files)),
    ...newestFirst.filter(({ ageMs }, i) => ageMs > tombstoneLifetimeMs || i >= tombstonesMax),
    ...abandoned(files, "engine-only"),
    ...(await abandonedLocks(files)),
  ];
  await Promise.allSettled([
    ...removable.map(({ path }) => rm(path, { force: true })),
    ...crashed.map(async ({ path }) => makeEmpty(path)),
  ]);
}

async function examine(dir: string, name: string): Promise<FoundFile | undefined> {
  const file = parseStateFileName(name);
  const path = join(dir, name);
  const status = file === undefined ? undefined : await lstat(path).catch(() => undefined);
  if (file === undefined || status === undefined) return undefined;
  const { mtimeMs, ino, size } = status;
  return { path, file, ageMs: elapsedMs(mtimeMs), inode: ino, isEmpty: size === 0 };
}

async function abandonedTemporaryFiles(
  dir: string,
  files: readonly FoundFile[],
): Promise<FoundFile[]> {
  const removable: FoundFile[] = [];
  for (const found of files) {
    const { file, ageMs } = found;
    if (file.kind !== "temporary") continue;
    if (ageMs > abandonedAfterMs || (await isOfNoSandbox(dir, file.of))) removable.push(found);
  }
  return removable;
}

/**
 * Whether the sandbox is detached, and no ADD may be about to write its record: the lock file is there
 * while it is, unless there was no room for it.
 */
async function isOfNoSandbox(dir: string, of: RecordKey | undefined): Promise<boolean> {
  if (of === undefined) return false;
  const names = [recordFileName(of), sandboxLockName(of.containerId)];
  if (names.some((name) => isPresent(join(dir, name)))) return false;
  return !(await isSandboxLocked(dir, of.containerId));
}

/** Old files of a kind whose sandbox has no record. */
function abandoned(files: readonly FoundFile[], kind: "engine-only" | "sandbox-lock"): FoundFile[] {
  const recorded = new Set(
    files.flatMap(({ file }) => (file.kind === "record" ? [file.containerId] : [])),
  );
  return files.filter(
    ({ file, ageMs }) =>
      file.kind === kind && ageMs > abandonedAfterMs && !recorded.has(file.containerId),
  );
}

async function abandonedLocks(files: readonly FoundFile[]): Promise<FoundFile[]> {
  const candidates = abandoned(files, "sandbox-lock");
  if (candidates.length === 0) return [];
  const locked = await lockedInodes();
  return locked === undefined ? [] : candidates.filter(({ inode }) => !locked.has(inode));
}
