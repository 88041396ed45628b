import { CniError } from "#cni/error.ts";
import type { Pod, PodIdentity } from "#engine/ports/cluster.ts";
import type { MultusFiles } from "#engine/ports/host.ts";
import { parseCachedAdd } from "#npwg/multus/cached-add.ts";
import { parseMultusNetworks } from "#npwg/multus/networks-file.ts";

/**
 * The containers that Multus attached for pods that are not on the node any more. Plexus detaches one
 * when the runtime calls for it, but a runtime that has forgotten a sandbox does not. A container
 * whose files do not name its pod is none. @throws CniError 5 when the directory cannot be read
 */
export async function multusLeftovers(files: MultusFiles, pods: readonly Pod[]): Promise<string[]> {
  const left: string[] = [];
  for (const containerId of await files.containers()) {
    const pod = await podOf(files, containerId);
    if (pod !== undefined && !pods.some((each) => isOf(each, pod))) left.push(containerId);
  }
  return left;
}

/** The pod in the CNI_ARGS of the first network; undefined when the files do not have it. */
async function podOf(files: MultusFiles, containerId: string): Promise<PodIdentity | undefined> {
  try {
    const text = (await files.networks(containerId)) ?? "";
    const [first] = parseMultusNetworks(text, { source: containerId, cniVersion: "" });
    if (first === undefined) return undefined;
    const key = { network: first.list.name, containerId, ifName: first.ifName ?? "eth0" };
    const cached = await files.cachedAdd(key);
    const args = new Map(cached === undefined ? [] : parseCachedAdd(cached, key).cniArgs);
    const [namespace, name] = [args.get("K8S_POD_NAMESPACE"), args.get("K8S_POD_NAME")];
    const uid = args.get("K8S_POD_UID");
    if (namespace === undefined || name === undefined || uid === undefined) return undefined;
    return { namespace, name, uid };
  } catch (error) {
    if (error instanceof CniError) return undefined;
    throw error;
  }
}

/** The UID of a static pod is not that of its mirror. */
function isOf({ namespace, name, uid, isStatic }: Pod, pod: PodIdentity): boolean {
  return namespace === pod.namespace && name === pod.name && (uid === pod.uid || isStatic);
}
