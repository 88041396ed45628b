import { command, ExitCode } from "#cli/command.ts";
import { commonFlags, switchFlag, textFlag } from "#cli/flags.ts";
import { readHostView } from "#host/host-view.ts";
import { defaultPaths, plexusConfName } from "#lib/files/default-paths.ts";
import {
  attachmentProblems,
  findPrimaryAfterUninstall,
  isDaemonRunning,
} from "./uninstall-checks.ts";
import { removeNodeFiles, removePlexusConf, restorePrimary } from "./uninstall-steps.ts";

/** `plexusctl uninstall`: what deploy/uninstall runs on every node. */
export const uninstallCommand = command({
  name: "uninstall",
  summary: "hand the node back to its primary CNI and remove everything of Plexus",
  description: `Checks that plexusd does not run, that nothing is attached and that the primary CNI's
configuration can be used. Then removes ${plexusConfName}, the executables, the socket and the
state. Files that do not exist are no error: it can be repeated.`,
  flags: {
    force: switchFlag("even if sandboxes are attached or there is no usable primary CNI"),
    "allow-default-only": switchFlag(
      "even if sandboxes are attached to the default network only: the primary CNI deletes those (not with CRI-O, which remembers which plugin added them)",
    ),
    "cni-conf-dir": textFlag(
      "DIR",
      "the container runtime's configurations",
      defaultPaths.cniConfDir,
    ),
    "primary-dir": textFlag("DIR", "the primary CNI's configuration; by default --cni-conf-dir"),
    "bin-dir": commonFlags.binDir,
    "state-dir": commonFlags.stateDir,
    socket: commonFlags.socket,
    "plugin-dirs-file": commonFlags.pluginDirsFile,
  },
  failsWhen: "a check failed and nothing was changed",
  async run({ flags }, output) {
    const paths = {
      cniConfDir: flags["cni-conf-dir"],
      primaryDir: flags["primary-dir"] || flags["cni-conf-dir"],
      binDir: flags["bin-dir"],
      stateDir: flags["state-dir"],
      socket: flags.socket,
      pluginDirsFile: flags["plugin-dirs-file"],
    };
    if (await isDaemonRunning(paths.socket)) {
      output.err(
        "plexusd is still running on this node and would restore what is removed: delete its DaemonSet first",
      );
      return ExitCode.Failed;
    }
    const problems = await attachmentProblems(paths.stateDir, {
      allowDefaultOnly: flags["allow-default-only"],
    });
    const { problem, file, warning } = await findPrimaryAfterUninstall(paths, await readHostView());
    if (problem !== undefined) problems.push(problem);
    if (warning !== undefined) output.err(`warning: ${file}: ${warning}`);
    for (const each of problems) output.err(each);
    if (problems.length > 0 && !flags.force) {
      output.err("nothing was changed; --force uninstalls nevertheless");
      return ExitCode.Failed;
    }
    // The container runtime must use the primary CNI before the shim is removed.
    if (file !== undefined) await restorePrimary(paths, { file, output });
    await removePlexusConf(paths, output);
    await removeNodeFiles(paths, output);
    output.out(
      file === undefined
        ? "uninstalled; the container runtime has no usable CNI configuration"
        : `uninstalled; the container runtime uses ${file}`,
    );
    return ExitCode.Done;
  },
});
