import { CniError } from "#cni/error.ts";
import type { CalledPod, Pod } from "#engine/ports/cluster.ts";
import type { MultusFiles } from "#engine/ports/host.ts";
import { isOf } from "#engine/ports/pod-identity.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { parseCachedAdd } from "#npwg/multus/cached-add.ts";
import {
  type MultusNetwork,
  multusIfName,
  parseMultusNetworks,
} from "#npwg/multus/networks-file.ts";

/** What Multus left on the node. */
export interface MultusLeftovers {
  /**
   * The containers that Multus attached for pods that are not on the node any more. Plexus detaches
   * one when the runtime calls for it, but a runtime that has forgotten a sandbox does not. A
   * container whose files do not name its pod is none.
   */
  readonly gone: readonly string[];
  /** Why the file of a container cannot be used, a sentence each: its DEL cannot use it either. */
  readonly damaged: readonly string[];
}

/** Looks through Multus's files. @throws CniError 5 when the directory cannot be read */
export async function multusLeftovers(
  files: MultusFiles,
  listPods: () => readonly Pod[],
): Promise<MultusLeftovers> {
  const damaged: string[] = [];
  const named: [containerId: string, pod: CalledPod][] = [];
  for (const containerId of await files.containers()) {
    const networks = await usable(readNetworks(files, containerId), damaged);
    const pod = await podOf(files, containerId, networks ?? []);
    if (pod !== undefined) named.push([containerId, pod]);
  }
  // After the files: Multus may have attached a pod meanwhile.
  const pods = listPods();
  const gone = named.flatMap(([id, pod]) => (pods.some((each) => isOf(pod, each)) ? [] : id));
  return { gone, damaged };
}

/** None if the file has just gone. */
async function readNetworks(files: MultusFiles, containerId: string): Promise<MultusNetwork[]> {
  const text = await files.networks(containerId);
  const source = `${defaultPaths.cniStateDir}/multus/${containerId}`;
  return text === undefined ? [] : parseMultusNetworks(text, { source, cniVersion: "" });
}

/** The pod in the CNI_ARGS of any network; undefined when the files do not have it. */
async function podOf(
  files: MultusFiles,
  containerId: string,
  networks: readonly MultusNetwork[],
): Promise<CalledPod | undefined> {
  for (const [index, network] of networks.entries()) {
    const ifName = multusIfName(network, { index, first: "eth0" });
    const key = { network: network.list.name, containerId, ifName };
    const pod = await usable(cachedPod(files, key));
    if (pod !== undefined) return pod;
  }
  return undefined;
}

/** The pod in one file of libcni's cache. Not all runtimes name its UID. */
async function cachedPod(
  files: MultusFiles,
  key: Parameters<MultusFiles["cachedAdd"]>[0],
): Promise<CalledPod | undefined> {
  const text = await files.cachedAdd(key);
  if (text === undefined) return undefined;
  const args = new Map(parseCachedAdd(text, key).cniArgs);
  const [namespace, name] = [args.get("K8S_POD_NAMESPACE"), args.get("K8S_POD_NAME")];
  const uid = args.get("K8S_POD_UID");
  if (namespace === undefined || name === undefined) return undefined;
  return { namespace, name, ...(uid ? { uid } : {}) };
}

/** What a file says; undefined, and why, when it is damaged. */
async function usable<T>(read: Promise<T>, damaged: string[] = []): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    damaged.push(error.message);
    return undefined;
  }
}
