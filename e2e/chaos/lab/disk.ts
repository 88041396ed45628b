import {
  accessSync,
  closeSync,
  constants,
  mkdirSync,
  openSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { waitUntil } from "../../support/wait.ts";
import type { Place } from "./place.ts";

/** What goes wrong with the state directory's file system; one that is read-only already cannot be filled. */
export async function breakDisk(place: Place, how: string): Promise<void> {
  if (isReadOnly(place)) return;
  if (how === "full") untilRefused("ENOSPC", fill(join(place.disk, "filler")));
  else if (how === "no-inode") untilRefused("ENOSPC", useInodes(join(place.disk, "inodes")));
  else await makeReadOnly(place.disk);
}

/** A record is open until it is durable, half a second after its last update; a disk with such a file stays writable. */
async function makeReadOnly(disk: string): Promise<void> {
  await waitUntil("the disk can be made read-only", async () => {
    await execa("mount", ["-o", "remount,ro", disk]);
    return true;
  });
}

/** Makes the file system what it was. */
export async function repairDisk(place: Place): Promise<void> {
  await execa("mount", ["-o", "remount,rw", place.disk]);
  for (const name of ["filler", "inodes"])
    rmSync(join(place.disk, name), { recursive: true, force: true });
}

function isReadOnly({ disk }: Place): boolean {
  try {
    accessSync(disk, constants.W_OK);
    return false;
  } catch {
    return true;
  }
}

function fill(path: string): () => void {
  const file = openSync(path, "w");
  const chunk = Buffer.alloc(1 << 12, 1);
  return () => {
    try {
      writeSync(file, chunk);
    } catch (error) {
      closeSync(file);
      throw error;
    }
  };
}

function useInodes(dir: string): () => void {
  mkdirSync(dir, { recursive: true });
  let n = 0;
  return () => writeFileSync(join(dir, `${n++}`), "");
}

function untilRefused(code: string, step: () => void): void {
  try {
    for (;;) step();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== code) throw error;
  }
}
