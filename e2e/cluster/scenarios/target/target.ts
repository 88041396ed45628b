// SPDX-License-Identifier: Apache-2.0

import type { Cluster } from "../../kubernetes/cluster.ts";
import type { Command, RunResult } from "../../machine/run.ts";

/** The cluster under test: one of our own, or the one that KUBECONFIG names. */
export interface Target extends AsyncDisposable {
  /** The node that the test pods run on. */
  readonly nodeName: string;
  /** The image of test pods: busybox. */
  readonly podImage: string;
  /** The image of Plexus, as the node knows it. */
  readonly plexusImage: string;
  /** Set where the node's processes may be killed and its clock, power and control plane are ours. */
  readonly own?: Cluster;
  /** Runs kubectl as the administrator and returns its standard output. Throws if it fails. */
  kubectl(...args: string[]): Promise<string>;
  /** Runs kubectl as the administrator, whatever its exit status. */
  tryKubectl(...args: string[]): Promise<RunResult>;
  /** Applies manifests: YAML text, or one object. */
  apply(manifest: string | object): Promise<string>;
  /** Runs a program on the node, in its namespaces and as its root. Throws if it fails. */
  inNode(command: Command): Promise<string>;
}

/** Whether the cluster is given, which is known before it is reached. */
export const isGiven = (process.env.KUBECONFIG ?? "") !== "";

/** Why some scenarios are left out of a given cluster. */
export const ownOnly =
  "not run: KUBECONFIG gives a cluster, whose node, control plane and CNI are not for tests to break";

/** The cluster that the tests have started themselves. */
export function ownCluster({ target }: { readonly target: Target }): Cluster {
  if (target.own === undefined) throw new Error(ownOnly);
  return target.own;
}

/** Whether the node's container runtime is CRI-O, not containerd. */
export const isCrio = process.env.PLEXUS_E2E_RUNTIME === "crio";

/** CRI-O maps the ports of the node itself: the cluster's network is not asked for any. */
export const asksForPorts = !isCrio;
