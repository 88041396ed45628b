import { access, constants, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { listedPluginDirs } from "#cli/node/plugin-dirs.ts";
import type { NodeCondition, NodeStatus } from "#daemon/admin/node-status.ts";
import { otherLists } from "#daemon/cni-conf/conf-dir.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { isCrioRunning } from "#host/crio.ts";
import { readTokenTimes, type TokenTimes } from "#kube/api/token-times.ts";
import { type Condition, found } from "#lib/condition.ts";
import { errorMessage } from "#lib/error-message.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { runProgram } from "#lib/run-program.ts";

/** Less is free than this part: records may soon not be written any more. */
const scarcePart = 0.05;
/** A token is replaced when a fifth of its lifetime is left at the latest. */
const latePart = 0.1;
const shimTimeoutMs = 5000;

/** Owners, modes and free space of the node's directories, as far as they can be seen from here. */
export async function directoryFindings(dirs: NodeStatus["dirs"]): Promise<NodeCondition[]> {
  // The shim trusts more directories than the runtime's, but plexusd's container may not have the list.
  const listed = await listedPluginDirs(defaultPaths.pluginDirsFile);
  return Promise.all([
    judged(dirs.cniConfDir, configurationDirectory),
    ...dirs.binDirs.map((path) => judged(path, pluginDirectory)),
    judged(dirs.stateDir, stateDirectory),
    ...listed.map((path) => judged(path, listedDirectory)),
  ]);
}

async function judged(
  path: string,
  judge: (path: string) => Promise<Condition>,
): Promise<NodeCondition> {
  const unusable = (error: unknown): Condition => {
    const step = "it must be on the node, and mounted into plexusd's pod";
    return found("DirectoryUnusable", `cannot be used: ${errorMessage(error)}`, step);
  };
  return { check: path, ...(await judge(path).catch(unusable)) };
}

async function configurationDirectory(path: string): Promise<Condition> {
  await access(path, constants.W_OK);
  return found("DirectoryUsable", `${await ownerOf(path)}, can be written`);
}

/** Its owner does not matter, because the container runtime trusts it in any case. */
async function pluginDirectory(path: string): Promise<Condition> {
  const text = await ownerOf(path);
  const { mode } = await stat(path);
  if ((mode & 0o022) === 0) return found("DirectoryUsable", text);
  const who = "users who may write there are effectively root, as with every container runtime";
  return found("DirectoryWritable", `${text}: ${who}`);
}

async function stateDirectory(path: string): Promise<Condition> {
  await access(path, constants.W_OK);
  const { bavail, blocks, ffree, files } = await statfs(path);
  const text = `${await ownerOf(path)}, ${percent(bavail, blocks)} of space and ${percent(ffree, files)} of inodes free`;
  const isScarce = bavail < blocks * scarcePart || ffree < files * scarcePart;
  if (!isScarce) return found("DirectoryUsable", text);
  return found(
    "StateUnwritable",
    text,
    "without space or inodes no pod can be attached: free some",
  );
}

async function listedDirectory(path: string): Promise<Condition> {
  const { uid, mode } = await stat(path);
  const text = await ownerOf(path);
  if (uid === 0 && (mode & 0o022) === 0) return found("DirectoryUsable", text);
  const step =
    "the shim executes nothing from it, as others than root may write there; give it to root, with mode 0755";
  return found("PluginDirRefused", `${text}: ${step}`);
}

async function ownerOf(path: string): Promise<string> {
  const { uid, gid, mode } = await stat(path);
  return `owner ${uid}:${gid}, mode ${(mode & 0o7777).toString(8).padStart(4, "0")}`;
}

/** File systems without a number of inodes have as many as they need. */
function percent(free: number, all: number): string {
  return all === 0 ? "100 %" : `${Math.floor((free / all) * 100)} %`;
}

/** Whether the shim that the container runtime executes is there, and of plexusd's release. */
export async function shimFinding({ version, commit, dirs }: NodeStatus): Promise<Condition> {
  const path = join(dirs.shimDir, executableNames.shim);
  try {
    const { stdout } = await runProgram([path, "--version"], { timeoutMs: shimTimeoutMs });
    const release = stdout.trim();
    const text = `${path}: ${release}`;
    if (release === `${executableNames.shim} ${version} (${commit})`)
      return found("ShimReady", text);
    const step =
      "an upgrade is in progress, or plexusd's pod has not installed its shim: restart that pod";
    return found("ShimOutdated", `${text} is of another release than plexusd`, step);
  } catch (error) {
    const step =
      "delete plexusd's pod on this node: its container install puts the shim there again";
    return found("ShimMissing", `${path} cannot be executed: ${errorMessage(error)}`, step);
  }
}

/** The age of the token that plexus-standalone uses; none where plexusd keeps no token. */
export async function tokenFindings(stateDir: string): Promise<NodeCondition[]> {
  const times = await readTokenTimes(standalonePaths(stateDir).kubeconfig);
  return times === undefined
    ? []
    : [{ check: "token of plexus-standalone", ...tokenFinding(times) }];
}

function tokenFinding({ issuedAt, expiresAt }: TokenTimes): Condition {
  const step = "see the logs of plexusd on this node, which renews the token while it runs";
  const now = Date.now() / 1000;
  const age = `issued ${minutes(now - issuedAt)} ago`;
  if (expiresAt <= now) {
    const expired = `expired ${minutes(now - expiresAt)} ago: plexus-standalone can attach no pod`;
    return found("TokenExpired", `${age}, ${expired}`, step);
  }
  const text = `${age}, expires in ${minutes(expiresAt - now)}`;
  const isLate = expiresAt - now < (expiresAt - issuedAt) * latePart;
  if (!isLate) return found("TokenValid", text);
  return found("TokenNotRenewed", `${text}, and is not renewed`, step);
}

function minutes(seconds: number): string {
  return `${Math.floor(seconds / 60)} min`;
}

/**
 * Lists of other runtimes that CRI-O would tear down: at its start it detaches what libcni's cache,
 * which all runtimes share, has of any list, and what is not of a pod.
 */
export async function otherListFindings(
  cniConfDir: string,
  isCrio: () => Promise<boolean> = isCrioRunning,
): Promise<NodeCondition[]> {
  const lists = await otherLists(cniConfDir, new HostConfFiles());
  if (lists.length === 0 || !(await isCrio())) return [];
  const advice =
    'calls Plexus for another runtime, whose running containers CRI-O detaches when it starts: add "disableGC": true to this list';
  return lists.map(({ file: check, disablesGc }) => ({
    check,
    ...(disablesGc
      ? found("ListNotCollected", "calls Plexus, and CRI-O collects no garbage in it")
      : found("ListCollected", advice)),
  }));
}
