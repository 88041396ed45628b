import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import { delegateList } from "#engine/delegate-list.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import { errorMessage } from "#lib/error-message.ts";
import { executableNames } from "#lib/files/default-paths.ts";
import { primaryConfName } from "#lib/files/state-files.ts";
import { nameTarget, temporaryName } from "#lib/files/temporary-name.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { examinePlugins, lookUpPlugin, type PluginFindings } from "./plugin-lookup.ts";

const shimStep = "restart plexusd's pod, which installs it";

/** More than the record of a usual pod. */
const probeBytes = 64 * 1024;

interface PrerequisitesOptions {
  readonly spec: NodeConfSpec;
  readonly stateDir: string;
  readonly files: Pick<ConfFiles, "sees">;
}

/** Why an ADD would fail now, apart from the primary CNI's plugins, and what cannot be seen. */
export async function checkPrerequisites(options: PrerequisitesOptions): Promise<PluginFindings> {
  const shim = await examineShim(options);
  if (shim.problem !== undefined) return shim;
  const problem = await stateDirProblem(options.stateDir);
  if (problem !== undefined) return { problem };
  const delegates = await examineDelegates(options);
  return { ...shim, ...delegates };
}

/** The shim is missing if `cniBinDir` is not the directory of the installed executables. */
async function examineShim({ spec, files }: PrerequisitesOptions): Promise<PluginFindings> {
  const { shimDir } = spec;
  const found = await lookUpPlugin(executableNames.shim, { binDirs: [shimDir], files });
  switch (found.kind) {
    case "there":
      return {};
    case "missing":
      return { problem: `${executableNames.shim} is not installed in ${shimDir}; ${shimStep}` };
    case "unseen":
      return { warning: `plexusd cannot see whether its shim is installed: ${found.why}` };
  }
}

/** Every ADD starts with a record, so all fail on a full or read-only file system. */
async function stateDirProblem(stateDir: string): Promise<string | undefined> {
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

async function examineDelegates({ spec, files }: PrerequisitesOptions): Promise<PluginFindings> {
  const { delegates, binDirs } = spec;
  let warning: string | undefined;
  for (const [index, conf] of delegates.entries()) {
    const types = delegateList(conf, index).plugins.map((plugin) => plugin.type);
    const findings = await examinePlugins(types, { binDirs, files });
    const key = `delegates[${index}]`;
    if (findings.problem !== undefined)
      return { problem: `${key} cannot be used: ${findings.problem}` };
    if (findings.warning !== undefined) warning ??= `${key}: ${findings.warning}`;
  }
  return omitUndefined({ warning });
}
