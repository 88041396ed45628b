import { randomBytes } from "node:crypto";

/** What no other process has in its names. */
const own = randomBytes(6).toString("hex");
let count = 0;

const pattern = /^\.(.+)\.[0-9a-f]+\.tmp$/s;

/**
 * A name for the file that will be renamed to `target` in the same directory. It begins with a dot,
 * so that nobody who reads the directory takes it for the file itself.
 */
export function temporaryName(target: string): string {
  return `.${target}.${own}${(count++).toString(16)}.tmp`;
}

/** The file that a temporary file was to become; undefined for names that are not temporary ones. */
export function targetOfTemporaryName(name: string): string | undefined {
  return pattern.exec(name)?.[1];
}
