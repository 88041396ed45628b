import { rm } from "node:fs/promises";
import { join } from "node:path";
import { nodeAddresses } from "../cluster/kubernetes/addresses.ts";
import { type Cluster, startCluster } from "../cluster/kubernetes/cluster.ts";
import { scenesOf } from "../cluster/nodes/node-target.ts";
import { writePlexusImage } from "../cluster/scenarios/target/images.ts";
import { installPlexus, plexusLogs } from "../cluster/scenarios/target/plexus.ts";
import type { Scene } from "../cluster/scenarios/target/scene.ts";
import { calico } from "./calico.ts";
import { flannel } from "./flannel.ts";
import { type Primary, preparePrimary } from "./primary.ts";

const primaries: Readonly<Record<string, Primary>> = { flannel, calico };

/** A cluster of two nodes with a primary CNI whose agent runs as it does elsewhere, and with Plexus. */
export class Lab implements AsyncDisposable {
  readonly cluster: Cluster;
  readonly primary: Primary;
  readonly one: Scene;
  readonly two: Scene;

  private constructor(cluster: Cluster, primary: Primary) {
    this.cluster = cluster;
    this.primary = primary;
    [this.one, this.two] = scenesOf(cluster);
  }

  /** Starts the cluster with the primary CNI that PRIMARY names, and installs Plexus over it. */
  static async start(): Promise<Lab> {
    const name = process.env.PRIMARY ?? "";
    const primary = primaries[name];
    if (primary === undefined) {
      const known = Object.keys(primaries).join(", ");
      throw new Error(`PRIMARY is ${JSON.stringify(name)}; choose one of: ${known}`);
    }
    const cluster = await startCluster({ nodes: 2 });
    const lab = new Lab(cluster, primary);
    try {
      await lab.#installPrimary();
      await installPlexus(cluster);
      await lab.one.prepare();
      await lab.two.remember();
      return lab;
    } catch (error) {
      console.error(await lab.report());
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster[Symbol.asyncDispose]();
  }

  /** Gives the primary's agent new pods on both nodes, and waits until they are ready. */
  async restartPrimary(): Promise<void> {
    await this.#agent("rollout", "restart");
    await this.#waitForAgent();
  }

  /** Appends a plugin to the chain in the primary's ConfigMap; its agent writes the file at its next start. */
  async appendPlugin(plugin: object): Promise<void> {
    const { namespace, configMap } = this.primary;
    const [name, key] = configMap;
    const where = [`--namespace=${namespace}`, "configmap", name] as const;
    const { data } = await this.cluster.get<{ data: Record<string, string> }>(...where);
    // A template need not be JSON.
    const text = data[key]?.replace(/\]\s*\}\s*$/, `, ${JSON.stringify(plugin)}]}`);
    const patch = JSON.stringify({ data: { [key]: text } });
    await this.cluster.kubectl("patch", ...where, `--patch=${patch}`);
  }

  /** What explains a failure. */
  async report(): Promise<string> {
    const { namespace, daemonSet } = this.primary;
    const reads = [
      ["get", "pods,nodes", "--all-namespaces", "--output=wide"],
      ["describe", "pods", `--namespace=${namespace}`],
      ["logs", `--namespace=${namespace}`, `daemonset/${daemonSet}`, "--all-pods", "--tail=40"],
    ];
    const results = await Promise.all(reads.map((read) => this.cluster.tryKubectl(...read)));
    const texts = results.map(({ stdout, stderr }) => stdout + stderr);
    return [...texts, await plexusLogs(this.cluster)].join("\n");
  }

  /** Replaces the cluster's usual primary network, which no pod has used yet, and its routes between the nodes. */
  async #installPrimary(): Promise<void> {
    const { manifest, archive } = await preparePrimary(this.primary, this.cluster.directory);
    const plexus = await writePlexusImage();
    for (const [index, node] of this.cluster.nodes.entries()) {
      const podCIDR = nodeAddresses(index + 1).podRange;
      const patch = JSON.stringify({ spec: { podCIDR, podCIDRs: [podCIDR] } });
      await this.cluster.kubectl("patch", "node", node.name, `--patch=${patch}`);
      await this.cluster.controlPlane.host.run(["ip", "route", "delete", podCIDR]);
      await rm(join(node.cniConfDir, "10-primary.conflist"));
      for (const image of [archive, plexus]) await node.loadImage(image);
    }
    await this.cluster.apply(manifest);
    await this.#waitForAgent();
  }

  async #waitForAgent(): Promise<void> {
    await this.#agent("rollout", "status", "--timeout=400s");
    await this.cluster.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=240s");
  }

  async #agent(...command: string[]): Promise<void> {
    const { namespace, daemonSet } = this.primary;
    await this.cluster.kubectl(`--namespace=${namespace}`, ...command, `daemonset/${daemonSet}`);
  }
}
