import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { errorMessage } from "#lib/error-message.ts";
import { primaryConfName } from "#lib/files/state-files.ts";
import { nameTarget, temporaryName } from "#lib/files/temporary-name.ts";

/** More than the record of a usual pod. */
const probeBytes = 64 * 1024;

/** Why no record can be written. Every ADD starts with one, so all fail on a full or read-only file system. */
export async function stateDirProblem(stateDir: string): Promise<string | undefined> {
  // The sweep removes a file of this name after a crash.
  const target = join(stateDir, primaryConfName);
  const probe = join(stateDir, temporaryName(primaryConfName));
  try {
    await mkdir(stateDir, { recursive: true, mode: 0o700 });
    await using file = await open(probe, "wx", 0o600);
    await file.writeFile(Buffer.alloc(probeBytes));
    return undefined;
  } catch (error) {
    const reason = errorMessage(nameTarget(error, probe, target));
    return `the state directory ${stateDir} cannot be used: ${reason}`;
  } finally {
    await rm(probe, { force: true }).catch(() => undefined);
  }
}
