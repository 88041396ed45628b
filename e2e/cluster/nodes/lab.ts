// SPDX-License-Identifier: Apache-2.0

import { join } from "node:path";
import { releaseTool } from "../../release/tools.ts";
import { repositoryRoot } from "../../support/paths.ts";
import { type Cluster, startCluster } from "../kubernetes/cluster.ts";
import type { ClusterNode } from "../kubernetes/node.ts";
import { type RunResult, run, tryRun } from "../machine/run.ts";
import { writePlexusImage } from "../scenarios/target/images.ts";
import type { PodObject } from "../scenarios/target/objects.ts";
import { plexusPod } from "../scenarios/target/plexus.ts";
import { Scene } from "../scenarios/target/scene.ts";
import { eventually } from "../scenarios/target/target.ts";
import { NodeTarget } from "./node-target.ts";

/** The label of docs/user/migration.md: plexusd runs on nodes where it is `plexus`. */
const label = "example.com/meta-cni";

const release = ["plexus", join(repositoryRoot, "deploy/chart"), "--namespace=kube-system"];

/** The chart's values that the scenarios need all the time; a dot in a key has to be escaped. */
const values = [`--set=nodeSelector.${label.replaceAll(".", "\\.")}=plexus`];

/** A cluster of two nodes with the chart, whose plexusd runs on labelled nodes only. */
export class Lab implements AsyncDisposable {
  readonly cluster: Cluster;
  /** The scenarios' pods and networks, as seen from each of the first two nodes. */
  readonly one: Scene;
  readonly two: Scene;

  private constructor(cluster: Cluster, [one, two]: readonly [Scene, Scene]) {
    this.cluster = cluster;
    this.one = one;
    this.two = two;
  }

  /** Starts the cluster and installs the chart. No node has the label yet. */
  static async start(): Promise<Lab> {
    const cluster = await startCluster({ nodes: 2, images: [await writePlexusImage()] });
    const [first, second] = cluster.nodes;
    if (first === undefined || second === undefined)
      throw new Error("two nodes have been asked for");
    const lab = new Lab(cluster, [sceneOn(cluster, first), sceneOn(cluster, second)]);
    await lab.helm("install");
    await lab.one.prepare();
    await lab.two.remember();
    return lab;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster[Symbol.asyncDispose]();
  }

  /** The scenarios' pods and networks, as seen from one more node. */
  sceneOn(node: ClusterNode): Scene {
    return sceneOn(this.cluster, node);
  }

  /**
   * `helm install` or `upgrade` of the chart, with more values. Helm 3 waits until all but `maxUnavailable` nodes are
   * done, which is one of two.
   */
  async helm(action: "install" | "upgrade", ...more: string[]): Promise<void> {
    const helm = [await releaseTool("helm"), action, ...release, ...values, ...more] as const;
    await run(this.cluster.administratorCommand(...helm, "--wait", "--timeout=240s"));
    const rollout = ["rollout", "status", "daemonset/plexus", "--timeout=240s"];
    await this.cluster.kubectl("--namespace=kube-system", ...rollout);
  }

  /** Runs deploy/kubectl-plexus as the administrator. */
  async kubectlPlexus(...args: string[]): Promise<RunResult> {
    const script = join(repositoryRoot, "deploy/kubectl-plexus");
    return tryRun(this.cluster.administratorCommand(script, ...args));
  }

  /** Labels a node, and waits until plexusd is ready there. */
  async label({ target }: Scene): Promise<void> {
    await target.kubectl("label", "node", target.nodeName, `${label}=plexus`);
    await eventually(`plexusd is ready on ${target.nodeName}`, async () => {
      return readyTime(await plexusPod(target)) !== undefined;
    });
  }

  /** Removes a node's label, and waits until plexusd is gone from there. */
  async unlabel({ target }: Scene): Promise<void> {
    const { name } = (await plexusPod(target)).metadata;
    await target.kubectl("label", "node", target.nodeName, `${label}-`);
    const gone = ["--for=delete", `pod/${name}`, "--timeout=240s"];
    await target.kubectl("wait", "--namespace=kube-system", ...gone);
  }
}

/** When a pod became ready, in milliseconds since 1970; undefined if it is not. */
export function readyTime({ status }: PodObject): number | undefined {
  const ready = status.conditions?.find(({ type }) => type === "Ready");
  return ready?.status === "True" ? Date.parse(ready.lastTransitionTime) : undefined;
}

function sceneOn(cluster: Cluster, node: ClusterNode): Scene {
  return new Scene(new NodeTarget(cluster, node));
}
