import type { TestContext } from "vitest";
import { type Probe, waitUntil } from "../../../support/wait.ts";
import { Cluster } from "../../kubernetes/cluster.ts";
import type { Kubectl } from "../../kubernetes/kubectl.ts";
import type { Command } from "../../machine/run.ts";

/** The cluster under test: one of our own, or the one that KUBECONFIG names. */
export interface Target extends Kubectl, AsyncDisposable {
  /** The node that the test pods run on. */
  readonly nodeName: string;
  /** Runs a program on the node, in its namespaces and as its root. Throws if it fails. */
  inNode(command: Command): Promise<string>;
}

/** Whether the cluster is given, which is known before it is reached. */
export const isGiven = (process.env.KUBECONFIG ?? "") !== "";

/** `releases`, `fixed`, or all. */
export const scenariosWanted = process.env.PLEXUS_E2E_SCENARIOS;

const ownOnly =
  "not run: KUBECONFIG gives a cluster, whose node, control plane and CNI are not for tests to break";

/** Leaves a scenario out of a given cluster, and says why. */
export function skipGiven(context: TestContext): void {
  context.skip(isGiven, ownOnly);
}

/** The cluster that the tests have started themselves, whose node, power and control plane are ours. */
export function ownCluster({ target }: { readonly target: Target }): Cluster {
  if (!(target instanceof Cluster)) throw new Error(ownOnly);
  return target;
}

/** Whether the node's container runtime is CRI-O, not containerd. */
export const isCrio = process.env.PLEXUS_E2E_RUNTIME === "crio";

/** A field of the node's object, by its JSONPath. */
export function nodeField(target: Target, path: string): Promise<string> {
  return target.kubectl("get", "node", target.nodeName, `--output=jsonpath={${path}}`);
}

/** The first internal address of the node. */
export async function nodeAddress(target: Target): Promise<string> {
  const output = await nodeField(target, '.status.addresses[?(@.type=="InternalIP")].address');
  return output.split(" ")[0] ?? "";
}

/** The 36 of Kubernetes 1.36. */
export async function kubernetesMinor(target: Target): Promise<number> {
  const { minor } = JSON.parse(await target.kubectl("get", "--raw=/version")) as { minor: string };
  return Number.parseInt(minor, 10);
}

/** Leaves a scenario out where containerd makes no STATUS calls. */
export async function skipWithoutStatus(context: TestContext, target: Target): Promise<void> {
  const runtime = await nodeField(target, ".status.nodeInfo.containerRuntimeVersion");
  context.skip(runtime.startsWith("containerd://1."), `not run: ${runtime} has no STATUS, 2.0 has`);
}

/** Waits for what a cluster does in its own time: longer than anything takes on a node that is merely busy. */
export function eventually<T>(state: string, probe: Probe<T>): Promise<T> {
  return waitUntil(state, probe, { timeoutMs: 240_000, intervalMs: 500 });
}
