import type { Cluster } from "../kubernetes/cluster.ts";
import { Kubectl } from "../kubernetes/kubectl.ts";
import type { ClusterNode } from "../kubernetes/node.ts";
import type { Command } from "../machine/run.ts";
import type { Target } from "../scenarios/target/target.ts";

/** One node of a cluster, as what scenarios look at. Disposing of it does not change the cluster. */
export class NodeTarget extends Kubectl implements Target {
  readonly cluster: Cluster;
  readonly node: ClusterNode;

  constructor(cluster: Cluster, node: ClusterNode) {
    super(cluster.kubectlCommand());
    this.cluster = cluster;
    this.node = node;
  }

  get nodeName(): string {
    return this.node.name;
  }

  async inNode(command: Command): Promise<string> {
    return this.node.host.run(command);
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
