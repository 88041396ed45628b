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
  const lock = await lockOf(stateDir, containerId);
  return lock !== undefined && elapsedMs(lock.mtimeMs) < longestCallMs;
}

/**
 * Whether a shim operates on the sandbox now, or on any if it had no room for its lock file and has
 * marked the directory; false when the kernel does not say. The file's age does not matter: the
 * clock may have been set forward during the call.
 */
export async function isSandboxLocked(stateDir: string, containerId: string): Promise<boolean> {
  const lock = await lockOf(stateDir, containerId);
  if (lock !== undefined && (await lockedInodes())?.has(lock.ino) === true) return true;
  const directory = await stat(stateDir).catch(() => undefined);
  if (directory === undefined) return false;
  return (await lockedInodes("OFDLCK"))?.has(directory.ino) ?? false;
}

function lockOf(stateDir: string, containerId: string): Promise<Stats | undefined> {
  return stat(join(stateDir, sandboxLockName(containerId))).catch(() => undefined);
}
