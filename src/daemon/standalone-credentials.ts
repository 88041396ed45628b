import type { Logger } from "#engine/ports/logger.ts";
import { type InClusterOptions, inClusterContent } from "#kube/api/in-cluster.ts";
import { portableKubeconfig } from "#kube/api/portable-kubeconfig.ts";
import type { Cluster } from "./cluster.ts";
import type { DaemonFlags } from "./flags.ts";
import { NodeToken } from "./node-token.ts";

/** How to make the kubeconfig of plexus-standalone; empty without an API. */
export function standaloneCredentials(options: {
  readonly flags: Pick<DaemonFlags, "source" | "thin">;
  readonly inCluster?: InClusterOptions;
  readonly cluster: Pick<Cluster, "node">;
  readonly logger: Logger;
}): {
  kubeconfig?: () => Promise<string>;
} {
  const { flags, inCluster, cluster, logger } = options;
  const { source } = flags;
  if (source.kind !== "api") return {};
  const { kubeconfig: path } = source;
  if (path !== undefined) {
    const kubeconfig = async (): Promise<string> => {
      const { readPlainKubeconfig } = await import("#kube/api/plain-kubeconfig.ts");
      return portableKubeconfig(readPlainKubeconfig(path, { allowsTokenFile: true }));
    };
    return { kubeconfig };
  }
  if (inCluster === undefined) return {};
  const ofPod = () => inClusterContent(inCluster);
  const { node } = cluster;
  if (!flags.thin || node === undefined)
    return { kubeconfig: async () => portableKubeconfig(await ofPod()) };
  const ofNode = new NodeToken({
    podToken: async () => (await ofPod()).token,
    request: (account, seconds) => node.requestToken(account, seconds),
    isRejected: (token) => node.isRejected(token),
    logger,
  });
  const kubeconfig = async (): Promise<string> => {
    const token = await ofNode.get();
    return portableKubeconfig({ ...(await ofPod()), token });
  };
  return { kubeconfig };
}
