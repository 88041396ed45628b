// SPDX-License-Identifier: Apache-2.0

import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { Crio } from "../../crio/crio.ts";
import { prepareCrioTools } from "../../crio/tools.ts";
import { waitUntil } from "../../support/wait.ts";
import { writeBusyboxImage, writePauseImage } from "../machine/images.ts";
import { Reaper } from "../machine/reaper.ts";
import type { Command, RunOptions } from "../machine/run.ts";
import { Containerd } from "./containerd.ts";
import { ControlPlane } from "./control-plane.ts";
import { Kubectl } from "./kubectl.ts";
import { ClusterNode } from "./node.ts";
import { CertificateAuthority } from "./pki.ts";
import type { NodeRuntime } from "./runtime.ts";
import { prepareTools, type Tools } from "./tools.ts";

interface ClusterParts {
  readonly directory: string;
  readonly tools: Tools;
  readonly controlPlane: ControlPlane;
  readonly node: ClusterNode;
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

/** A Kubernetes cluster of one node, in private namespaces, directories and control groups. */
export class Cluster extends Kubectl {
  /** Everything that the cluster keeps on disk. Goes with the cluster. */
  readonly directory: string;
  readonly controlPlane: ControlPlane;
  readonly node: ClusterNode;
  readonly #tools: Tools;
  readonly #reaper: Reaper;

  constructor({ directory, tools, controlPlane, node, reaper }: ClusterParts) {
    const kubectl = join(tools.kubernetes, "kubectl");
    super(nearApiServer(controlPlane, kubectl, `--kubeconfig=${controlPlane.kubeconfig}`));
    this.directory = directory;
    this.controlPlane = controlPlane;
    this.node = node;
    this.#tools = tools;
    this.#reaper = reaper;
  }

  get nodeName(): string {
    return this.node.name;
  }

  /** The command that runs a program whose `kubectl` is the administrator's; kubectl finds its plugins in the PATH. */
  administratorCommand(...command: Command): Command {
    const path = `PATH=${this.#tools.kubernetes}:${process.env.PATH}`;
    const kubeconfig = `KUBECONFIG=${this.controlPlane.kubeconfig}`;
    return nearApiServer(this.controlPlane, "env", path, kubeconfig, ...command);
  }

  /** Runs a program on the node, in its namespaces. Throws if it fails. */
  async inNode(command: Command, options: RunOptions = {}): Promise<string> {
    return this.node.host.run(command, options);
  }

  /** Waits until the API server knows that the node is ready in its current boot. */
  async waitForNode(): Promise<void> {
    const { name, bootId } = this.node;
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
   * Restarts the kubelet, and waits until the API server has given it its pods again: until then it answers exec and
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

  /** Ends everything on the node at once and boots it again, with the files that it had. */
  async rebootNode(): Promise<void> {
    await this.node.kill();
    await this.node.start();
    await this.waitForNode();
  }

  /** Kills all of it and removes what it has left on the machine. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.node.kill();
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

/** The container runtime that PLEXUS_E2E_RUNTIME names. */
async function nodeRuntime(tools: Tools): Promise<NodeRuntime> {
  const name = process.env.PLEXUS_E2E_RUNTIME || "containerd";
  if (name === "containerd") return new Containerd(tools);
  if (name === "crio") return new Crio(await prepareCrioTools());
  throw new Error(`no such container runtime: ${name}; there are containerd and crio`);
}

/**
 * Starts a cluster and waits until its node is ready and pods can be made. If that fails, or this process dies,
 * nothing is left of it but logs that were written to another directory ($PLEXUS_E2E_LOGS).
 */
export async function startCluster(): Promise<Cluster> {
  const tools = await prepareTools();
  const directory = await mkdtemp(join(tmpdir(), "plexus-e2e-"));
  const cgroup = basename(directory);
  const reaper = new Reaper({ directory, cgroup });
  const hosts = new AsyncDisposableStack();
  try {
    const logs = process.env.PLEXUS_E2E_LOGS ?? join(directory, "logs");
    const authority = await CertificateAuthority.create(join(directory, "pki"));
    const controlPlane = await ControlPlane.start({ tools, directory, logs, authority });
    hosts.defer(() => controlPlane.host.kill());
    const node = await ClusterNode.create({
      tools,
      runtime: await nodeRuntime(tools),
      root: join(directory, "node"),
      logs,
      cgroup,
      authority,
      controlPlane: controlPlane.host,
      images: [
        await writePauseImage(tools.init, directory),
        await writeBusyboxImage(tools.busybox, directory),
      ],
    });
    hosts.defer(() => node.kill());
    const cluster = new Cluster({ directory, tools, controlPlane, node, reaper });
    await node.start();
    await cluster.waitForNode();
    await waitForServiceAccount(cluster, "default");
    return cluster;
  } catch (error) {
    await hosts.disposeAsync();
    await reaper.reap();
    throw error;
  }
}
