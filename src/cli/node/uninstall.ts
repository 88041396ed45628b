import { type CliStreams, command, ExitCode } from "#cli/command.ts";
import { commonFlags, switchFlag, textFlag } from "#cli/flags.ts";
import { removePlexusConf, restorePrimary } from "#daemon/cni-conf/hand-back.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { type HostView, readHostView } from "#host/host-view.ts";
import { defaultPaths, plexusConfName } from "#lib/files/default-paths.ts";
import {
  attachmentProblems,
  directoryProblems,
  findPlexus,
  findPrimaryAfterUninstall,
  isDaemonRunning,
  otherListProblems,
} from "./uninstall-checks.ts";
import { removeNodeFiles, type UninstallPaths } from "./uninstall-steps.ts";

/** `plexusctl uninstall`: what deploy/uninstall runs on every node. */
export const uninstallCommand = command({
  name: "uninstall",
  summary: "hand the node back to its primary CNI and remove Plexus",
  description: `Checks that plexusd does not run, that no sandbox needs Plexus to be detached, that no
other list calls Plexus and that the primary CNI's configuration can be used. The primary CNI detaches
pods that have its network only and whose DEL has not failed, except with CRI-O, which remembers which
plugin attached them. Then removes ${plexusConfName}, the socket, the state and the executables; reference plugins
that install-plugins installed stay. Where nothing of Plexus is, it removes nothing and succeeds, so that
it can be repeated. State without the executables is an error, and a --state-dir without state.`,
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
    const view = await readHostView();
    const presence = await findPlexus(paths);
    const { isCallable } = presence;
    const next = await findPrimaryAfterUninstall(paths, { view, isCallable });
    const { problem, file, warning } = next;
    const ofSandboxes = { isDaemonRunning: isRunning, primary: next.name };
    const problems = [
      ...directoryProblems(paths, presence),
      ...(await attachmentProblems(paths.stateDir, ofSandboxes)),
      ...(await otherListProblems(paths.cniConfDir, view)),
    ];
    if (problem !== undefined) problems.push(problem);
    if (warning !== undefined) output.err(`warning: ${file}: ${warning}`);
    for (const each of problems) output.err(each);
    if (problems.length > 0 && !flags.force) {
      if (!flags.check) output.err("nothing was changed; --force uninstalls nevertheless");
      return ExitCode.Failed;
    }
    const isHere = isCallable || presence.hasState;
    if (flags.check) output.out(isHere ? "the node can be handed back" : nothingIn(paths));
    else await uninstall(paths, { isHere, primary: file, view, output });
    return ExitCode.Done;
  },
});

function nothingIn({ cniConfDir, binDir, stateDir }: UninstallPaths): string {
  return `nothing of Plexus is in ${cniConfDir}, ${binDir} and ${stateDir}`;
}

interface UninstallOptions {
  /** Whether anything of Plexus is on the node. */
  readonly isHere: boolean;
  readonly primary: string | undefined;
  readonly view: HostView;
  readonly output: CliStreams;
}

/**
 * Hands the node back to its primary CNI, and removes Plexus. A node may have joined since plexusd was
 * deleted: then only the primary CNI's configuration is missing.
 */
async function uninstall(
  paths: UninstallPaths,
  { isHere, primary, view, output }: UninstallOptions,
): Promise<void> {
  // The container runtime must use the primary CNI before the shim is removed.
  const restored = primary === undefined ? undefined : await restorePrimary(paths, primary);
  if (restored !== undefined) output.out(`${restored}: restored`);
  if (!isHere) {
    output.out(nothingIn(paths));
    return;
  }
  const removed = await removePlexusConf(paths.cniConfDir, new HostConfFiles(view));
  for (const path of removed) output.out(`${path}: removed`);
  await removeNodeFiles(paths, output);
  const next = primary === undefined ? "has no usable CNI configuration" : `uses ${primary}`;
  output.out(`uninstalled; the container runtime ${next}`);
}
