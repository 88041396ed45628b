import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { waitUntil } from "../../support/wait.ts";
import { writeBusyboxImage, writePauseImage } from "../machine/images.ts";
import { Reaper } from "../machine/reaper.ts";
import type { Command, RunOptions } from "../machine/run.ts";
import { ControlPlane } from "./control-plane.ts";
import { Kubectl } from "./kubectl.ts";
import { ClusterNode, type NodeOptions } from "./node.ts";
import { CertificateAuthority } from "./pki.ts";
import { prepareTools } from "./tools.ts";

/** What a node has that others of its cluster need not have. */
type NewNode = Pick<NodeOptions, "taints">;

interface ClusterParts {
  /** What all nodes are made from. */
  readonly shared: Omit<NodeOptions, "index" | "taints">;
  readonly controlPlane: ControlPlane;
  readonly reaper: Reaper;
}

interface PodList {
  /** A kubelet that knows of no pod gives null. */
  readonly items: readonly { readonly metadata: { readonly uid: string } }[] | null;
}

function uidsOf({ items }: PodList): string[] {
  return (items ?? []).map(({ metadata }) => metadata.uid);
}

/** Runs a command where the API server is reached; files are this machine's. */
function nearApiServer({ host }: ControlPlane, ...command: Command): Command {
  return ["nsenter", `--target=${host.pid}`, "-n", ...command];
}

/** A Kubernetes cluster, of one node if not said otherwise, in private namespaces, directories and control groups. */
export class Cluster extends Kubectl {
  /** Everything that the cluster keeps on disk. Goes with the cluster. */
  readonly directory: string;
  readonly controlPlane: ControlPlane;
  readonly #shared: ClusterParts["shared"];
  readonly #reaper: Reaper;
  readonly #nodes: ClusterNode[] = [];
  /** How many nodes there have been: the name of a removed node is not used again. */
  #created = 0;

  constructor({ shared, controlPlane, reaper }: ClusterParts) {
    const kubectl = join(shared.tools.kubernetes, "kubectl");
    super(nearApiServer(controlPlane, kubectl, `--kubeconfig=${controlPlane.kubeconfig}`));
    this.directory = shared.directory;
    this.controlPlane = controlPlane;
    this.#shared = shared;
    this.#reaper = reaper;
  }

  /** The nodes that have not been removed, in the order of their names. */
  get nodes(): readonly ClusterNode[] {
    return this.#nodes;
  }

  /** The first node. Throws if the cluster has none. */
  get node(): ClusterNode {
    const [first] = this.#nodes;
    if (first === undefined) throw new Error("the cluster has no node");
    return first;
  }

  get nodeName(): string {
    return this.node.name;
  }

  /** The command that runs a program whose `kubectl` is the administrator's; kubectl finds its plugins in the PATH. */
  administratorCommand(...command: Command): Command {
    const path = `PATH=${this.#shared.tools.kubernetes}:${process.env.PATH}`;
    const kubeconfig = `KUBECONFIG=${this.controlPlane.kubeconfig}`;
    return nearApiServer(this.controlPlane, "env", path, kubeconfig, ...command);
  }

  /** Adds a node and waits until it is ready. */
  async addNode(options?: NewNode): Promise<ClusterNode> {
    const node = await this.#nextNode(options);
    await this.#boot(node);
    return node;
  }

  /** Adds nodes, which boot at the same time, and waits until they are ready. */
  async addNodes(count: number): Promise<void> {
    const added: ClusterNode[] = [];
    while (added.length < count) added.push(await this.#nextNode());
    await Promise.all(added.map((node) => this.#boot(node)));
  }

  /** Ends a node for good: a power cut, after which the node's object is deleted. */
  async removeNode(node: ClusterNode): Promise<void> {
    await node.kill();
    this.#nodes.splice(this.#nodes.indexOf(node), 1);
    await this.kubectl("delete", "node", node.name);
  }

  /** Runs a program on the first node, in its namespaces. Throws if it fails. */
  async inNode(command: Command, options: RunOptions = {}): Promise<string> {
    return this.node.host.run(command, options);
  }

  /** Waits until the API server knows that a node is ready in its current boot. */
  async waitForNode({ name, bootId } = this.node): Promise<void> {
    const ready = '{.status.conditions[?(@.type=="Ready")].status}';
    const path = `{.status.nodeInfo.bootID} ${ready}`;
    const read = ["get", "node", name, `--output=jsonpath=${path}`];
    await waitUntil(
      `node ${name} is ready`,
      async () => (await this.kubectl(...read)) === `${bootId} True`,
      { intervalMs: 200 },
    );
  }

  /**
   * Restarts the first node's kubelet, and waits until the API server has given it its pods again: until then it answers exec and
   * logs with "not found", and has not looked at any of them.
   */
  async restartKubelet(): Promise<void> {
    const { name } = this.node;
    await this.node.stopKubelet();
    await this.node.startKubelet();
    const here = ["pods", "--all-namespaces", `--field-selector=spec.nodeName=${name}`];
    const bound = uidsOf(await this.get<PodList>(...here));
    const ask = ["get", "--raw", `/api/v1/nodes/${name}/proxy/pods`];
    await waitUntil(
      "the kubelet knows its pods again",
      async () => {
        const known = uidsOf(JSON.parse(await this.kubectl(...ask)) as PodList);
        return bound.every((uid) => known.includes(uid));
      },
      { intervalMs: 200 },
    );
  }

  /** Ends everything on the first node at once and boots it again, with the files that it had. */
  async rebootNode(): Promise<void> {
    await this.node.kill();
    await this.#boot(this.node);
  }

  async #nextNode(options?: NewNode): Promise<ClusterNode> {
    this.#created += 1;
    const node = await ClusterNode.create({ ...this.#shared, ...options, index: this.#created });
    this.#nodes.push(node);
    return node;
  }

  async #boot(node: ClusterNode): Promise<void> {
    await node.start();
    await this.waitForNode(node);
  }

  /** Kills all of it and removes what it has left on the machine. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.kill()));
    await this.controlPlane.host.kill();
    await this.#reaper.reap();
  }
}

/** Waits until pods can be made in a namespace: they need its default service account. */
export async function waitForServiceAccount(cluster: Kubectl, namespace: string): Promise<void> {
  const read = ["get", "serviceaccount", "default", `--namespace=${namespace}`];
  await waitUntil(
    `namespace ${namespace} has its default service account`,
    async () => (await cluster.tryKubectl(...read)).exitCode === 0,
    { intervalMs: 200 },
  );
}

/** The control plane and what nodes are made with, without any node. */
async function startControlPlane(archives: readonly string[]): Promise<Cluster> {
  const tools = await prepareTools();
  const directory = await mkdtemp(join(tmpdir(), "plexus-e2e-"));
  const cgroup = basename(directory);
  const reaper = new Reaper({ directory, cgroup });
  try {
    const logs = process.env.PLEXUS_E2E_LOGS ?? join(directory, "logs");
    const authority = await CertificateAuthority.create(join(directory, "pki"));
    const images = [
      ...archives,
      await writePauseImage(tools.init, directory),
      await writeBusyboxImage(tools.busybox, directory),
    ];
    const controlPlane = await ControlPlane.start({ tools, directory, logs, authority });
    const made = { tools, directory, logs, cgroup, authority, images };
    return new Cluster({
      shared: { ...made, controlPlane: controlPlane.host },
      controlPlane,
      reaper,
    });
  } catch (error) {
    await reaper.reap();
    throw error;
  }
}

/**
 * Starts a cluster and waits until its nodes are ready and pods can be made. If that fails, or this process dies,
 * nothing is left of it but logs that were written to another directory ($PLEXUS_E2E_LOGS).
 * @param options `images` are archives that every node has from the start, in addition to those of its pods
 */
export async function startCluster({
  nodes = 1,
  images = [] as readonly string[],
} = {}): Promise<Cluster> {
  const cluster = await startControlPlane(images);
  try {
    await cluster.addNodes(nodes);
    await waitForServiceAccount(cluster, "default");
    return cluster;
  } catch (error) {
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
}
