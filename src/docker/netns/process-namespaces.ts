import { readdir, readlink } from "node:fs/promises";
import { isAbsent } from "#lib/files/is-absent.ts";

/**
 * The paths of the network namespaces of this PID namespace's processes, by inode number.
 * `isComplete`: this process could read the path of every process. @throws Error without /proc
 */
export async function processNamespaces() {
  const paths = new Map<number, string[]>();
  let isComplete = true;
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const path = `/proc/${pid}/ns/net`;
    const inode = await namespaceInode(path);
    if (inode === "unreadable") isComplete = false;
    else if (inode !== undefined) paths.set(inode, [...(paths.get(inode) ?? []), path]);
  }
  return { paths, isComplete };
}

/** Reads `net:[4026531840]`; undefined when the process has ended. */
async function namespaceInode(path: string): Promise<number | "unreadable" | undefined> {
  try {
    const [, inode] = /^net:\[(\d+)\]$/.exec(await readlink(path)) ?? [];
    return inode === undefined ? "unreadable" : Number(inode);
  } catch (error) {
    // The kernel reports ESRCH for a process that ends at this moment.
    const isOver = isAbsent(error) || (error as NodeJS.ErrnoException).code === "ESRCH";
    return isOver ? undefined : "unreadable";
  }
}
