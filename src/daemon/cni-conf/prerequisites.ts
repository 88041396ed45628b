import type { NodeConfSpec } from "#daemon/config/config.ts";
import { delegateList } from "#engine/delegate-list.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import { executableNames } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { stateDirProblem } from "#records/state-directory.ts";
import { examinePlugins, lookUpPlugin, type PluginFindings } from "./plugin-lookup.ts";

const shimStep = "restart plexusd's pod, which installs it";

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
