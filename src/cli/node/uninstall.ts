import { command, ExitCode } from "#cli/command.ts";
import { commonFlags, switchFlag, textFlag } from "#cli/flags.ts";
import { handBack } from "#daemon/cni-conf/hand-back.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { readHostView } from "#host/host-view.ts";
import { defaultPaths, plexusConfName } from "#lib/files/default-paths.ts";
import { checkNode, isDaemonRunning } from "./uninstall-checks.ts";
import { removeNodeFiles } from "./uninstall-steps.ts";

/** `plexusctl uninstall`: what deploy/uninstall runs on every node. */
export const uninstallCommand = command({
  name: "uninstall",
  summary: "hand the node back to its primary CNI and remove Plexus",
  description: `Checks that plexusd does not run, that no sandbox needs Plexus to be detached, that no other list
calls Plexus and that the primary CNI's configuration can be used. The primary CNI detaches pods
that have its network only and whose DEL has not failed, except with CRI-O, which remembers which
plugin attached them. Then removes ${plexusConfName}, the socket, the state and the
executables; reference plugins that install-plugins installed stay. Where nothing of Plexus is, it
removes nothing and succeeds, so that it can be repeated. State without the executables is an error,
and a --state-dir without state.`,
  flags: {
    check: switchFlag("only check whether the node could be handed back; plexusd may run"),
    force: switchFlag("even if a check fails, except that plexusd runs; what sandboxes hold leaks"),
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
    const isRunning = await isDaemonRunning(paths.socket);
    if (!flags.check && isRunning) {
      output.err(
        "plexusd is still running on this node and would restore what is removed: delete its DaemonSet first",
      );
      return ExitCode.Failed;
    }
    const files = new HostConfFiles(await readHostView());
    const found = await checkNode(paths, { files, isDaemonRunning: isRunning });
    const { isHere, primary, warnings, problems } = found;
    for (const each of [...warnings, ...problems]) output.err(each);
    if (problems.length > 0 && !flags.force) {
      if (!flags.check) output.err("nothing was changed; --force uninstalls nevertheless");
      return ExitCode.Failed;
    }
    // A node may have joined since plexusd was deleted: then only the primary CNI's file is missing.
    const changes = flags.check ? [] : await handBack(paths, { primary, files });
    for (const line of changes) output.out(line);
    if (!isHere) {
      const { cniConfDir, binDir, stateDir } = paths;
      output.out(`nothing of Plexus is in ${cniConfDir}, ${binDir} and ${stateDir}`);
    } else if (flags.check) {
      output.out("the node can be handed back");
    } else {
      await removeNodeFiles(paths, output);
      const next = primary === undefined ? "has no usable CNI configuration" : `uses ${primary}`;
      output.out(`uninstalled; the container runtime ${next}`);
    }
    return ExitCode.Done;
  },
});
