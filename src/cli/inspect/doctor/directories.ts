import { access, constants, stat, statfs } from "node:fs/promises";
import { listedPluginDirs } from "#cli/node/plugin-dirs.ts";
import type { NodeStatus } from "#daemon/admin/node-status.ts";
import { errorMessage } from "#lib/error-message.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import type { Finding } from "./finding.ts";

/** Less is free than this part: records may soon not be written any more. */
const scarcePart = 0.05;

type Judgement = Omit<Finding, "check">;

/** Owners, modes and free space of the node's directories, as far as they can be seen from here. */
export async function directoryFindings(dirs: NodeStatus["dirs"]): Promise<Finding[]> {
  // Those that the shim trusts beside the runtime's: plexusd's container does not have the list.
  const listed = await listedPluginDirs(defaultPaths.pluginDirsFile);
  return Promise.all([
    judged(dirs.cniConfDir, configurationDirectory),
    ...dirs.binDirs.map((path) => judged(path, pluginDirectory)),
    judged(dirs.stateDir, stateDirectory),
    ...listed.map((path) => judged(path, listedDirectory)),
  ]);
}

async function judged(
  check: string,
  judge: (path: string) => Promise<Judgement>,
): Promise<Finding> {
  try {
    return { check, ...(await judge(check)) };
  } catch (error) {
    return {
      check,
      verdict: "problem",
      text: `cannot be used: ${errorMessage(error)}; it must be on the node, and mounted into plexusd's pod`,
    };
  }
}

async function configurationDirectory(path: string): Promise<Judgement> {
  await access(path, constants.W_OK);
  return { verdict: "ok", text: `${await ownerOf(path)}, can be written` };
}

/** Its owner does not matter: the container runtime trusts it as it is. */
async function pluginDirectory(path: string): Promise<Judgement> {
  const text = await ownerOf(path);
  const { mode } = await stat(path);
  if ((mode & 0o022) === 0) return { verdict: "ok", text };
  const who = "users who may write there are effectively root, as with every container runtime";
  return { verdict: "warning", text: `${text}: ${who}` };
}

async function stateDirectory(path: string): Promise<Judgement> {
  await access(path, constants.W_OK);
  const { bavail, blocks, ffree, files } = await statfs(path);
  const text = `${await ownerOf(path)}, ${percent(bavail, blocks)} of space and ${percent(ffree, files)} of inodes free`;
  const isScarce = bavail < blocks * scarcePart || ffree < files * scarcePart;
  if (!isScarce) return { verdict: "ok", text };
  const step = "without space or inodes no pod can be attached: free some";
  return { verdict: "problem", text: `${text}; ${step}` };
}

async function listedDirectory(path: string): Promise<Judgement> {
  const { uid, mode } = await stat(path);
  const text = await ownerOf(path);
  if (uid === 0 && (mode & 0o022) === 0) return { verdict: "ok", text };
  const step =
    "the shim executes nothing from it, as others than root may write there; give it to root, with mode 0755";
  return { verdict: "problem", text: `${text}: ${step}` };
}

async function ownerOf(path: string): Promise<string> {
  const { uid, gid, mode } = await stat(path);
  return `owner ${uid}:${gid}, mode ${(mode & 0o7777).toString(8).padStart(4, "0")}`;
}

/** File systems without a number of inodes have as many as they need. */
function percent(free: number, all: number): string {
  return all === 0 ? "100 %" : `${Math.floor((free / all) * 100)} %`;
}
