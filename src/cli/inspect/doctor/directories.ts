import { access, constants, stat, statfs } from "node:fs/promises";
import { listedPluginDirs } from "#cli/node/plugin-dirs.ts";
import type { NodeStatus } from "#daemon/admin/node-status.ts";
import { errorMessage } from "#lib/error-message.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import type { Finding } from "./finding.ts";

/** Less is free than this part: records may soon not be written any more. */
const scarcePart = 0.05;

/** Owners, modes and free space of the node's directories, as far as they can be seen from here. */
export async function directoryFindings(dirs: NodeStatus["dirs"]): Promise<Finding[]> {
  return [
    await configurationDirectory(dirs.cniConfDir),
    ...(await Promise.all(dirs.binDirs.map(pluginDirectory))),
    await stateDirectory(dirs.stateDir),
    ...(await listedDirectories()),
  ];
}

async function configurationDirectory(path: string): Promise<Finding> {
  return guarded(path, async (check) => {
    await access(path, constants.W_OK);
    return { check, verdict: "ok", text: `${await ownerOf(path)}, can be written` };
  });
}

/** Its owner does not matter: the container runtime trusts it as it is. */
function pluginDirectory(path: string): Promise<Finding> {
  return guarded(path, async (check) => {
    const text = await ownerOf(path);
    const { mode } = await stat(path);
    if ((mode & 0o022) === 0) return { check, verdict: "ok", text };
    const who = "users who may write there are effectively root, as with every container runtime";
    return { check, verdict: "warning", text: `${text}: ${who}` };
  });
}

function stateDirectory(path: string): Promise<Finding> {
  return guarded(path, async (check) => {
    await access(path, constants.W_OK);
    const { bavail, blocks, ffree, files } = await statfs(path);
    const text = `${await ownerOf(path)}, ${percent(bavail, blocks)} of space and ${percent(ffree, files)} of inodes free`;
    const isScarce = bavail < blocks * scarcePart || ffree < files * scarcePart;
    if (!isScarce) return { check, verdict: "ok", text };
    const step = "without space or inodes no pod can be attached: free some";
    return { check, verdict: "problem", text: `${text}; ${step}` };
  });
}

/** Those that the shim trusts beside the runtime's: plexusd's container does not have the list. */
async function listedDirectories(): Promise<Finding[]> {
  const listed = await listedPluginDirs(defaultPaths.pluginDirsFile);
  return Promise.all(
    listed.map((path) =>
      guarded(path, async (check): Promise<Finding> => {
        const { uid, mode } = await stat(path);
        const text = await ownerOf(path);
        if (uid === 0 && (mode & 0o022) === 0) return { check, verdict: "ok", text };
        const step = "the shim executes nothing from it, as others than root may write there";
        return { check, verdict: "problem", text: `${text}: ${step}` };
      }),
    ),
  );
}

async function guarded(
  path: string,
  examine: (check: string) => Promise<Finding>,
): Promise<Finding> {
  try {
    return await examine(path);
  } catch (error) {
    return { check: path, verdict: "problem", text: `cannot be used: ${errorMessage(error)}` };
  }
}

async function ownerOf(path: string): Promise<string> {
  const { uid, gid, mode } = await stat(path);
  return `owner ${uid}:${gid}, mode ${(mode & 0o7777).toString(8).padStart(4, "0")}`;
}

/** File systems without a number of inodes have as many as they need. */
function percent(free: number, all: number): string {
  return all === 0 ? "100 %" : `${Math.floor((free / all) * 100)} %`;
}
