import { join } from "node:path";
import { releaseTool } from "../../release/tools.ts";
import { repositoryRoot } from "../../support/paths.ts";
import { type Cluster, startCluster } from "../kubernetes/cluster.ts";
import { type RunResult, run, tryRun } from "../machine/run.ts";
import { installMultus, loadMultusImages } from "../scenarios/pages/multus.ts";
import { writePlexusImage } from "../scenarios/target/images.ts";
import type { PodObject } from "../scenarios/target/objects.ts";
import { plexusPod } from "../scenarios/target/plexus.ts";
import type { Scene } from "../scenarios/target/scene.ts";
import { eventually, isCrio } from "../scenarios/target/target.ts";
import { scenesOf } from "./node-target.ts";

/** plexusd runs on nodes where it is `plexus`, Multus on the others. */
const label = "example.com/meta-cni";

const system = ["--namespace=kube-system"] as const;
const release = ["plexus", join(repositoryRoot, "deploy/chart"), ...system] as const;

/** Whether Multus is on the nodes first. With CRI-O, its pods would have to be evicted (docs/user/migration.md). */
export const isFromMultus = !isCrio;

/**
 * The chart's values that the scenarios need all the time; a dot in a key has to be escaped. The CRD is in Multus's
 * manifest too.
 */
const values = [
  `--set=nodeSelector.${label.replaceAll(".", "\\.")}=plexus`,
  `--set=crds.enabled=${!isFromMultus}`,
];

/** A cluster of two nodes with the chart, whose plexusd runs on labelled nodes only. Multus runs on the others. */
export class Lab implements AsyncDisposable {
  readonly cluster: Cluster;
  /** The scenarios' pods and networks, as seen from each of the first two nodes. */
  readonly one: Scene;
  readonly two: Scene;

  private constructor(cluster: Cluster) {
    this.cluster = cluster;
    [this.one, this.two] = scenesOf(cluster);
  }

  /** Starts the cluster and installs Multus and the chart. plexusd runs on no node yet. */
  static async start(): Promise<Lab> {
    const cluster = await startCluster({ nodes: 2, images: [await writePlexusImage()] });
    const lab = new Lab(cluster);
    if (isFromMultus) await startMultus(cluster);
    await lab.helm("install");
    await lab.one.prepare();
    await lab.two.remember();
    return lab;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster[Symbol.asyncDispose]();
  }

  /**
   * `helm install` or `upgrade` of the chart, with more values. Helm 3 waits until all but `maxUnavailable` nodes are
   * done, which is one of two.
   */
  async helm(action: "install" | "upgrade", ...more: string[]): Promise<void> {
    const helm = [await releaseTool("helm"), action, ...release, ...values, ...more] as const;
    await run(this.cluster.administratorCommand(...helm, "--wait", "--timeout=240s"));
    const rollout = ["rollout", "status", "daemonset/plexus", "--timeout=240s"];
    await this.cluster.kubectl(...system, ...rollout);
  }

  /** `helm uninstall` of the chart. */
  async helmUninstall(): Promise<RunResult> {
    const [name, , namespace] = release;
    const helm = [await releaseTool("helm"), "uninstall", name, namespace, "--wait"] as const;
    return tryRun(this.cluster.administratorCommand(...helm));
  }

  /** Runs deploy/kubectl-plexus as the administrator. */
  async kubectlPlexus(...args: string[]): Promise<RunResult> {
    const script = join(repositoryRoot, "deploy/kubectl-plexus");
    return tryRun(this.cluster.administratorCommand(script, ...args));
  }

  /** Labels a node, which stops Multus there, and waits until plexusd is ready. */
  async label({ target }: Scene): Promise<void> {
    await target.kubectl("label", "node", target.nodeName, `${label}=plexus`, "--overwrite");
    const multus = ["--selector=app=multus", `--field-selector=spec.nodeName=${target.nodeName}`];
    await target.kubectl(...system, "wait", "--for=delete", "pod", ...multus, "--timeout=240s");
    const files = ["conf", "conflist"].map((end) => `/etc/cni/net.d/00-multus.${end}`);
    await target.inNode(["rm", "-f", ...files]);
    await eventually(`plexusd is ready on ${target.nodeName}`, async () => {
      return readyTime(await plexusPod(target)) !== undefined;
    });
  }

  /** Gives a node the label with which neither runs there, and waits until plexusd is gone. */
  async leave({ target }: Scene): Promise<void> {
    const { name } = (await plexusPod(target)).metadata;
    await target.kubectl("label", "node", target.nodeName, `${label}=leaving`, "--overwrite");
    const gone = ["--for=delete", `pod/${name}`, "--timeout=240s"];
    await target.kubectl("wait", ...system, ...gone);
  }
}

/** When a pod became ready, in milliseconds since 1970; undefined if it is not. */
export function readyTime({ status }: PodObject): number | undefined {
  const ready = status.conditions?.find(({ type }) => type === "Ready");
  return ready?.status === "True" ? Date.parse(ready.lastTransitionTime) : undefined;
}

/** Starts thin Multus on all nodes, as step 3 of docs/user/migration.md leaves it. */
async function startMultus(cluster: Cluster): Promise<void> {
  await loadMultusImages(cluster);
  await installMultus(cluster, "thin");
  const matchExpressions = [{ key: label, operator: "NotIn", values: ["plexus", "leaving"] }];
  const required = { nodeSelectorTerms: [{ matchExpressions }] };
  const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: required };
  const template = { spec: { affinity: { nodeAffinity } } };
  const updateStrategy = { type: "OnDelete", rollingUpdate: null };
  const patch = JSON.stringify({ spec: { updateStrategy, template } });
  const daemonSet = ["daemonset", "kube-multus-ds", "--type=merge", `--patch=${patch}`];
  await cluster.kubectl(...system, "patch", ...daemonSet);
}
