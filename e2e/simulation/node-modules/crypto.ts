import * as crypto from "node:crypto";
import { world } from "../world/world.ts";

/*
 * In place of node:crypto: what is random comes from the history.
 */

export const { createHash, hash } = crypto;

/** Zeros for a module that is loaded before the first history. */
export function randomBytes(size: number): Buffer {
  const random = randomOfHistory();
  const bytes = Buffer.alloc(size);
  for (let i = 0; i < size && random !== undefined; i++) bytes[i] = random.integer(0, 255);
  return bytes;
}

function randomOfHistory(): ReturnType<typeof world>["random"] | undefined {
  try {
    return world().random;
  } catch {
    return undefined;
  }
}
