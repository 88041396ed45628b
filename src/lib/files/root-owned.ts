import { lstatSync, realpathSync, type Stats } from "node:fs";
import { dirname, resolve } from "node:path";

/**
 * Checks that only root can change what is at a path, links on it included. Above it, others may
 * add entries if they cannot replace root's, as in /tmp. A process of another user trusts its user.
 * @throws Error naming the part of the path that others can change, or as of node:fs
 */
export function checkRootOwned(path: string): void {
  for (const whole of new Set([resolve(path), realpathSync(path)])) {
    for (let part = whole; ; part = dirname(part)) {
      if (!isRootOwned(lstatSync(part), { isWhole: part === whole }))
        throw new Error(`${part} must belong to root, and only root may be able to write to it`);
      if (part === dirname(part)) break;
    }
  }
}

function isRootOwned(stats: Stats, { isWhole }: { readonly isWhole: boolean }): boolean {
  if (stats.uid !== 0 && stats.uid !== process.geteuid?.()) return false;
  if (stats.isSymbolicLink() || (stats.mode & 0o022) === 0) return true;
  return !isWhole && (stats.mode & 0o1000) !== 0;
}
