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
  const { kubeconfig } = source;
  if (kubeconfig !== undefined) return { kubeconfig: () => portableKubeconfig({ kubeconfig }) };
  if (inCluster === undefined) return {};
  const { node } = cluster;
  if (!flags.thin || node === undefined) {
    return { kubeconfig: () => portableKubeconfig({ inCluster }) };
  }
  const token = new NodeToken({
    podToken: async () => (await inClusterContent(inCluster)).token,
    request: (account, seconds) => node.requestToken(account, seconds),
    isRejected: (token) => node.isRejected(token),
    logger,
  });
  return { kubeconfig: async () => portableKubeconfig({ inCluster }, await token.get()) };
}
