import { constants } from "node:fs";
import { world } from "../../world/world.ts";

const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC;

/** Creates a file, or empties the one that is there, in one system call. @throws Error as of node:fs */
export function makeEmpty(path: string): void {
  const { disk } = world();
  disk.close(disk.open(path, { flags, mode: 0o600 }));
}
