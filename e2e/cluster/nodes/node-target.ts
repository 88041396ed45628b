import type { Cluster } from "../kubernetes/cluster.ts";
import { Kubectl } from "../kubernetes/kubectl.ts";
import type { ClusterNode } from "../kubernetes/node.ts";
import type { Command } from "../machine/run.ts";
import { Scene } from "../scenarios/target/scene.ts";
import type { Target } from "../scenarios/target/target.ts";

/** One node of a cluster, as what scenarios look at. Disposing of it does not change the cluster. */
class NodeTarget extends Kubectl implements Target {
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

/** The scenarios' pods and networks, as seen from a node. */
export function sceneOn(cluster: Cluster, node: ClusterNode): Scene {
  return new Scene(new NodeTarget(cluster, node));
}

/** The same, from each node of a cluster of two. */
export function scenesOf(cluster: Cluster): readonly [one: Scene, two: Scene] {
  const [one, two] = cluster.nodes.map((node) => sceneOn(cluster, node));
  if (one === undefined || two === undefined) throw new Error("two nodes have been asked for");
  return [one, two];
}
