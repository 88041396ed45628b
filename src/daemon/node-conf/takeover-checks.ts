import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { parseNetConfList } from "#cni/conf/conf.ts";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import { errorMessage } from "#lib/error-message.ts";
import { executableNames } from "#lib/files/default-paths.ts";
import { primaryConfName } from "#lib/files/state-files.ts";
import { temporaryName } from "#lib/files/temporary-name.ts";
import type { JsonObject } from "#lib/json.ts";
import { isInstalled, missingPlugins } from "./candidates.ts";

/** More than the record and the teardown plan of a usual pod. */
const probeBytes = 64 * 1024;

/**
 * Why no pod could be attached if the container runtime called Plexus now, one sentence; undefined
 * when nothing is known. Whether the primary CNI's plugins are there is examined with its configuration.
 */
export async function takeoverProblem(
  spec: NodeConfSpec,
  stateDir: string,
): Promise<string | undefined> {
  return (
    (await shimProblem(spec)) ??
    (await stateDirProblem(stateDir)) ??
    (await delegatesProblem(spec.delegates, spec.binDirs))
  );
}

/** Absent where `cniBinDir` is not the directory that the executables were installed into. */
async function shimProblem({ binDirs }: NodeConfSpec): Promise<string | undefined> {
  const cniBinDir = binDirs.slice(-1);
  if (await isInstalled(executableNames.shim, cniBinDir)) return undefined;
  return `${executableNames.shim} is not installed in ${cniBinDir.join()}`;
}

/** Every ADD begins with a record: a file system that is full or read-only lets none through. */
async function stateDirProblem(stateDir: string): Promise<string | undefined> {
  // By its name it is swept after a crash.
  const probe = join(stateDir, temporaryName(primaryConfName));
  try {
    await mkdir(stateDir, { recursive: true, mode: 0o700 });
    await using file = await open(probe, "wx", 0o600);
    await file.writeFile(Buffer.alloc(probeBytes));
    return undefined;
  } catch (error) {
    return `the state directory ${stateDir} cannot be used: ${errorMessage(error)}`;
  } finally {
    await rm(probe, { force: true }).catch(() => undefined);
  }
}

async function delegatesProblem(
  delegates: readonly JsonObject[],
  binDirs: readonly string[],
): Promise<string | undefined> {
  for (const [index, conf] of delegates.entries()) {
    const source = `delegates[${index}]`;
    try {
      const problem = await missingPlugins(parseNetConfList(conf, { source }), binDirs);
      if (problem !== undefined) return `${source} cannot be used: ${problem}`;
    } catch (error) {
      return errorMessage(error);
    }
  }
  return undefined;
}
