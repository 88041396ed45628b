import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { noStateIn, readNodeNow, stateFilesIn } from "#cli/inspect/node-state.ts";
import { isPlexusConfName, otherLists } from "#daemon/cni-conf/conf-dir.ts";
import { findHandBackTarget } from "#daemon/cni-conf/hand-back.ts";
import { leftoverReason } from "#engine/leftovers/leftover.ts";
import {
  isDetachedByPrimary,
  isOnPrimaryOnly,
  sandboxNames,
} from "#engine/leftovers/without-plexus.ts";
import { type AttachmentRecord, sandboxName } from "#engine/record/record.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { isCrioRunning } from "#host/crio.ts";
import type { HostView } from "#host/host-view.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
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

/** What of Plexus is on the node. */
export interface Presence {
  /** Whether a configuration or an executable is there, so that the container runtime may call it. */
  readonly isCallable: boolean;
  readonly hasState: boolean;
}

export async function findPlexus({
  cniConfDir,
  binDir,
  stateDir,
}: UninstallPaths): Promise<Presence> {
  const executables = Object.values(executableNames).map((name) => join(binDir, name));
  const confNames = (await ifPresent(readdir(cniConfDir))) ?? [];
  return {
    isCallable: confNames.some(isPlexusConfName) || executables.some((path) => existsSync(path)),
    hasState: (await stateFilesIn(stateDir)).length > 0,
  };
}

/**
 * Why the directories may be those of another node or program: one sentence each. State without the
 * shim is suspicious, because it is removed before the shim. On a node that is already cleaned, no
 * directory has anything, and the DaemonSet names all but the state directory.
 */
export function directoryProblems(
  paths: UninstallPaths,
  { isCallable, hasState }: Presence,
): string[] {
  const { cniConfDir, binDir, stateDir } = paths;
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
export async function attachmentProblems(
  stateDir: string,
  options: { readonly isDaemonRunning: boolean; readonly primary: string | undefined },
): Promise<string[]> {
  const { isDaemonRunning, primary } = options;
  const { records, damaged } = await FileRecordStore.reader(stateDir, { mayBeAbsent: true }).list();
  const mayLeave = primary !== undefined && !(await isCrioRunning());
  const blocking: AttachmentRecord[] = [];
  for (const record of records) {
    if (mayLeave && isDetachedByPrimary(record, primary)) continue;
    const isUndecided = mayLeave && isDaemonRunning && isOnPrimaryOnly(record, primary);
    // The uninstallation itself waits for the end of the call.
    if (isUndecided && (await isSandboxLocked(stateDir, record.containerId))) continue;
    blocking.push(record);
  }
  const problems = damaged.map(
    ({ error }) => `${error.message}; delete the pod of this container, or uninstall with --force`,
  );
  const current = await readNodeNow(records);
  const reasonOf = (record: AttachmentRecord) => leftoverReason(record, current);
  const attached = blocking.filter((record) => reasonOf(record) === undefined);
  const leftovers = blocking.filter((record) => reasonOf(record) !== undefined);
  if (attached.length > 0) {
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
export async function otherListProblems(cniConfDir: string, view: HostView): Promise<string[]> {
  const lists = await otherLists(cniConfDir, new HostConfFiles(view));
  return lists.map(({ file }) => {
    const path = join(cniConfDir, file);
    return `${path} calls Plexus for another runtime: remove its containers and that file first, or uninstall with --force`;
  });
}

/**
 * The file that the container runtime uses next, or why there is none; neither without Plexus, unless
 * the file has to be copied: on a node that joins, the primary CNI may write it later.
 */
export async function findPrimaryAfterUninstall(
  paths: UninstallPaths,
  { view, isCallable }: { readonly view: HostView; readonly isCallable: boolean },
): Promise<Partial<Record<"file" | "name" | "warning" | "problem", string>>> {
  const binDirs = [paths.binDir, ...(await listedPluginDirs(paths.pluginDirsFile))];
  const next = await findHandBackTarget(paths, { binDirs, files: new HostConfFiles(view) });
  return "file" in next || isCallable || paths.primaryDir !== paths.cniConfDir ? next : {};
}
