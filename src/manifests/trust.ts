import { readdirSync } from "node:fs";
import { join } from "node:path";
import { isAbsent } from "#lib/files/is-absent.ts";
import { checkRootOwned } from "#lib/files/root-owned.ts";

/** @throws Error naming the file or directory of manifests that others than root can change */
export function checkManifests(dir: string): void {
  checkRootOwned(dir);
  for (const name of readdirSync(dir)) {
    try {
      checkRootOwned(join(dir, name));
    } catch (error) {
      // An editor's file that existed for a moment.
      if (!isAbsent(error)) throw error;
    }
  }
}
