import { randomBytes } from "node:crypto";

const pattern = /^\.(.+)\.[0-9a-f]+\.tmp$/s;

/** A name for a file to rename to `target`. It begins with a dot, so that readers ignore it. */
export function temporaryName(target: string): string {
  return `.${target}.${randomBytes(6).toString("hex")}.tmp`;
}

/** The target of a temporary name; undefined for any other name. */
export function targetOfTemporaryName(name: string): string | undefined {
  return pattern.exec(name)?.[1];
}
