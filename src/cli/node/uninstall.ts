import {
  type CliOutput,
  type Command,
  type CommandArguments,
  ExitCode,
  stringFlag,
} from "#cli/command.ts";
import { readHostView } from "#host/host-view.ts";
import { defaultPaths, plexusConfName } from "#lib/files/default-paths.ts";
import {
  attachmentProblems,
  findPrimaryAfterUninstall,
  isDaemonRunning,
} from "./uninstall-checks.ts";
import {
  removeNodeFiles,
  removePlexusConf,
  restorePrimary,
  type UninstallPaths,
} from "./uninstall-steps.ts";

/** `plexusctl uninstall`: what deploy/uninstall runs on every node. */
export const uninstallCommand: Command = {
  name: "uninstall",
  synopsis: "[--force] [--allow-default-only] [directories]",
  summary: "give the node back to its primary CNI and remove everything of Plexus",
  help: `Checks that plexusd is not running any more, that nothing is attached and that the primary CNI's
configuration can be used; then removes ${plexusConfName}, the executables, the socket and the
state. What is not there is no error: it may be run again.

  --force                 also while sandboxes are attached or there is no usable primary
  --allow-default-only    also while sandboxes are attached to the default network alone: the primary
                          CNI deletes those itself (not with CRI-O, which remembers who added them)
  --cni-conf-dir DIR      the container runtime's configurations (default ${defaultPaths.cniConfDir})
  --primary-dir DIR       the primary CNI's configuration, where that is elsewhere
  --bin-dir DIR           the plugin directory (default ${defaultPaths.cniBinDir})
  --state-dir DIR         attachment records (default ${defaultPaths.stateDir})
  --socket PATH           the daemon's socket (default ${defaultPaths.socket})
  --plugin-dirs-file FILE the list of plugin directories (default ${defaultPaths.pluginDirsFile})`,
  flags: {
    force: { type: "boolean", default: false },
    "allow-default-only": { type: "boolean", default: false },
    "cni-conf-dir": { type: "string", default: defaultPaths.cniConfDir },
    "primary-dir": { type: "string" },
    "bin-dir": { type: "string", default: defaultPaths.cniBinDir },
    "state-dir": { type: "string", default: defaultPaths.stateDir },
    socket: { type: "string", default: defaultPaths.socket },
    "plugin-dirs-file": { type: "string", default: defaultPaths.pluginDirsFile },
  },
  argumentCount: 0,
  run: uninstall,
};

async function uninstall(args: CommandArguments, output: CliOutput): Promise<ExitCode> {
  const paths = pathsOf(args);
  if (await isDaemonRunning(paths.socket)) {
    output.err(
      "plexusd is still running on this node and would put back what is removed: delete its DaemonSet first",
    );
    return ExitCode.Failed;
  }
  const allowDefaultOnly = args.flags["allow-default-only"] === true;
  const problems = await attachmentProblems(paths.stateDir, { allowDefaultOnly });
  const primary = await findPrimaryAfterUninstall(paths, await readHostView());
  if (primary.kind === "unusable") problems.push(primary.problem);
  if (primary.kind === "usable" && primary.warning !== undefined) {
    output.err(`warning: ${primary.file}: ${primary.warning}`);
  }
  for (const problem of problems) output.err(problem);
  if (problems.length > 0 && args.flags.force !== true) {
    output.err("nothing was changed; --force uninstalls nevertheless");
    return ExitCode.Failed;
  }
  const file = primary.kind === "usable" ? primary.file : undefined;
  await giveBackNode(paths, { file, output });
  const now = file ?? "no CNI configuration that can be used";
  output.out(`uninstalled; the container runtime uses ${now}`);
  return ExitCode.Done;
}

/** Gives the node back to its primary CNI: the last phase of the node's CNI configuration. */
async function giveBackNode(
  paths: UninstallPaths,
  { file, output }: { file: string | undefined; output: CliOutput },
): Promise<void> {
  if (file !== undefined) await restorePrimary(paths, { file, output });
  // The container runtime must use the primary CNI before the shim is removed.
  await removePlexusConf(paths, output);
  await removeNodeFiles(paths, output);
}

function pathsOf(args: CommandArguments): UninstallPaths {
  const cniConfDir = stringFlag(args, "cni-conf-dir");
  return {
    cniConfDir,
    primaryDir: stringFlag(args, "primary-dir") || cniConfDir,
    binDir: stringFlag(args, "bin-dir"),
    stateDir: stringFlag(args, "state-dir"),
    socket: stringFlag(args, "socket"),
    pluginDirsFile: stringFlag(args, "plugin-dirs-file"),
  };
}
