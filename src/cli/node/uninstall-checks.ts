import { existsSync } from "node:fs";
import { join } from "node:path";
import { noStateIn, readNodeNow, stateFilesIn } from "#cli/inspect/node-state.ts";
import { isPlexusConfName, otherLists } from "#daemon/cni-conf/conf-dir.ts";
import { findHandBackTarget } from "#daemon/cni-conf/hand-back.ts";
import { leftoverReason } from "#engine/leftovers/leftover.ts";
import { isOnPrimaryOnly, needOf, sandboxNames } from "#engine/leftovers/without-plexus.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import { type AttachmentRecord, sandboxName } from "#engine/record/record.ts";
import { isCrioRunning } from "#host/crio.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { adminSocketPath } from "#lib/files/state-files.ts";
import { isListening } from "#lib/net/is-listening.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { isSandboxLocked } from "#records/sandbox-in-use.ts";
import { listedPluginDirs } from "./plugin-dirs.ts";
import type { UninstallPaths } from "./uninstall-steps.ts";

/**
 * Whether a process accepts connections on plexusd's socket for calls, or on the one for plexusctl:
 * in the thin flavour, plexusd serves no calls.
 */
export async function isDaemonRunning(socket: string): Promise<boolean> {
  const sockets = [socket, adminSocketPath(socket)];
  const accepting = sockets.map((path) => isListening(path).catch(() => false));
  return (await Promise.all(accepting)).includes(true);
}

/** What is found on a node. */
interface NodeCheck {
  /** Whether anything of Plexus is there. */
  readonly isHere: boolean;
  /** The file that the container runtime uses next. */
  readonly primary: string | undefined;
  readonly warnings: readonly string[];
  /** Why the node cannot be handed back: one sentence each. */
  readonly problems: readonly string[];
}

/** Checks whether a node can be handed back to its primary CNI. */
export async function checkNode(
  paths: UninstallPaths,
  { files, isDaemonRunning }: { readonly files: ConfFiles; readonly isDaemonRunning: boolean },
): Promise<NodeCheck> {
  const { cniConfDir, primaryDir, binDir, stateDir } = paths;
  const executables = Object.values(executableNames).map((name) => join(binDir, name));
  const hasConf = (await files.list(cniConfDir)).some(isPlexusConfName);
  // The container runtime may call Plexus.
  const isCallable = hasConf || executables.some((path) => existsSync(path));
  const hasState = (await stateFilesIn(stateDir)).length > 0;
  const binDirs = [binDir, ...(await listedPluginDirs(paths.pluginDirsFile))];
  const next: Partial<Record<"file" | "name" | "warning" | "problem", string>> =
    await findHandBackTarget(paths, { binDirs, files });
  const { file: primary, name, warning, problem } = next;
  // Where nothing calls Plexus and no file has to be copied, the primary CNI may yet write its file.
  const isNeeded = isCallable || primaryDir !== cniConfDir;
  const problems = [
    ...directoryProblems(paths, { isCallable, hasState }),
    ...(await attachmentProblems(stateDir, { isDaemonRunning, primary: name })),
    ...(await otherListProblems(cniConfDir, files)),
    ...(problem === undefined || !isNeeded ? [] : [problem]),
  ];
  const warnings = warning === undefined ? [] : [`warning: ${primary}: ${warning}`];
  return { isHere: isCallable || hasState, primary, warnings, problems };
}

/**
 * Why the directories may be those of another node or program: one sentence each. State without the
 * shim is suspicious, because it is removed before the shim. On a node that is already cleaned, no
 * directory has anything, and the DaemonSet names all but the state directory.
 */
function directoryProblems(
  { cniConfDir, binDir, stateDir }: UninstallPaths,
  { isCallable, hasState }: Record<"isCallable" | "hasState", boolean>,
): string[] {
  const missing = Object.entries({ "--cni-conf-dir": cniConfDir, "--bin-dir": binDir })
    .filter(([, dir]) => !existsSync(dir))
    .map(([flag, dir]) => `there is no directory ${dir}: give the node's directory with ${flag}`);
  if (!hasState && stateDir !== defaultPaths.stateDir) return [...missing, noStateIn(stateDir)];
  if (isCallable || !hasState) return missing;
  const elsewhere = `Plexus is neither in ${cniConfDir} nor in ${binDir}, but has state in ${stateDir}: give the node's directories with --cni-conf-dir and --bin-dir, or remove the state with --force`;
  return [...missing, elsewhere];
}

/**
 * What still depends on Plexus, or may: one sentence each.
 * @param options.primary the name of the list that the runtime uses next; undefined without one
 */
async function attachmentProblems(
  stateDir: string,
  options: { readonly isDaemonRunning: boolean; readonly primary: string | undefined },
): Promise<string[]> {
  const { isDaemonRunning, primary } = options;
  const { records, damaged } = await FileRecordStore.reader(stateDir, { mayBeAbsent: true }).list();
  const isCrio = await isCrioRunning();
  const blocking: AttachmentRecord[] = [];
  for (const record of records) {
    if (needOf(record, { primary, isCrio }) === "nothing") continue;
    const isUndecided = !isCrio && isDaemonRunning && isOnPrimaryOnly(record, primary);
    // The uninstallation itself waits for the end of the call.
    if (isUndecided && (await isSandboxLocked(stateDir, record.containerId))) continue;
    blocking.push(record);
  }
  const problems = damaged.map(
    ({ error }) => `${error.message}; delete the pod of this container, or uninstall with --force`,
  );
  const current = await readNodeNow(records);
  const reasonOf = (record: AttachmentRecord) => leftoverReason(record, current);
  const { attached, leftovers = [] } = Object.groupBy(blocking, (record) =>
    reasonOf(record) === undefined ? "attached" : "leftovers",
  );
  if (attached !== undefined) {
    problems.push(
      `sandboxes attached through Plexus: ${sandboxNames(attached)}; delete these pods or containers, or drain the node first`,
    );
  }
  const last = leftovers.at(-1);
  if (last !== undefined) {
    const advice = isDaemonRunning
      ? "fix the cause, or leak what they hold with kubectl plexus forget NODE"
      : "fix the cause; if the runtime does not retry, install Plexus again, or leak what they hold with --force";
    problems.push(
      `sandboxes that could not be detached: ${sandboxNames(leftovers)}; ${sandboxName(last)}: ${reasonOf(last)}; ${advice}`,
    );
  }
  return problems;
}

/** The lists of other runtimes that call Plexus: their containers could not start, or end, without it. */
async function otherListProblems(dir: string, files: ConfFiles): Promise<string[]> {
  const lists = await otherLists(dir, files);
  return lists.map(
    ({ file }) =>
      `${join(dir, file)} calls Plexus for another runtime: remove its containers and that file first, or uninstall with --force`,
  );
}
