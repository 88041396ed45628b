import { accessSync, constants, rmSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { waitUntil } from "../../support/wait.ts";
import type { Place } from "./place.ts";

/** What is written until there is no room. */
const fillers: Readonly<Record<string, string>> = {
  full: "cat /dev/zero >filler",
  "no-inode": "mkdir -p inodes; for n in $(seq 100000); do : >inodes/$n || exit; done",
};

/** What goes wrong with the state directory's file system; one that is read-only already cannot be filled. */
export async function breakDisk(place: Place, how: string): Promise<void> {
  if (isReadOnly(place)) return;
  const filler = fillers[how];
  if (filler === undefined) return await makeReadOnly(place.disk);
  const { stderr } = await execa("sh", ["-c", filler], { cwd: place.disk, reject: false });
  if (!stderr.includes("No space left")) throw new Error(`the disk is not ${how}: ${stderr}`);
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
  if (isReadOnly(place)) await execa("mount", ["-o", "remount,rw", place.disk]);
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
