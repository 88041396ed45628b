import type { Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { elapsedMs } from "#lib/elapsed.ts";
import { sandboxLockName } from "#lib/files/state-files.ts";
import { lockedInodes } from "./locked-inodes.ts";

/** Far above the kubelet's four minutes. */
const longestCallMs = 600_000;

/**
 * Whether another process may serve the sandbox; a lock older than any call is of a killed shim.
 */
export async function isSandboxInUse(stateDir: string, containerId: string): Promise<boolean> {
  return (await recentLock(stateDir, containerId)) !== undefined;
}

/**
 * Whether a shim operates on the sandbox now, or on any if it had no room for its lock file and has
 * marked the directory; false when the kernel does not say.
 */
export async function isSandboxLocked(stateDir: string, containerId: string): Promise<boolean> {
  const lock = await recentLock(stateDir, containerId);
  if (lock !== undefined && (await lockedInodes())?.has(lock.ino) === true) return true;
  const directory = await stat(stateDir).catch(() => undefined);
  if (directory === undefined) return false;
  return (await lockedInodes("OFDLCK"))?.has(directory.ino) ?? false;
}

async function recentLock(stateDir: string, containerId: string): Promise<Stats | undefined> {
  const lock = join(stateDir, sandboxLockName(containerId));
  const found = await stat(lock).catch(() => undefined);
  return found !== undefined && elapsedMs(found.mtimeMs) < longestCallMs ? found : undefined;
}
