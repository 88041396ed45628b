// SPDX-License-Identifier: Apache-2.0

import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { Crio } from "../../crio/crio.ts";
import { prepareCrioTools } from "../../crio/tools.ts";
import { waitUntil } from "../../support/wait.ts";
import { writeBusyboxImage, writePauseImage } from "../machine/images.ts";
import { Reaper } from "../machine/reaper.ts";
import { type Command, type RunOptions, type RunResult, run, tryRun } from "../machine/run.ts";
import { Containerd } from "./containerd.ts";
import { ControlPlane } from "./control-plane.ts";
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

/** A Kubernetes cluster of one node, in private namespaces, directories and control groups. */
export class Cluster {
  /** Everything that the cluster keeps on disk. Goes with the cluster. */
  readonly directory: string;
  readonly tools: Tools;
  readonly controlPlane: ControlPlane;
  readonly node: ClusterNode;
  readonly #reaper: Reaper;

  constructor({ directory, tools, controlPlane, node, reaper }: ClusterParts) {
    this.directory = directory;
    this.tools = tools;
    this.controlPlane = controlPlane;
    this.node = node;
    this.#reaper = reaper;
  }

  /** The administrator's kubeconfig. Its server can be reached from the cluster's hosts only. */
  get kubeconfig(): string {
    return this.controlPlane.kubeconfig;
  }

  /** The command that runs kubectl as the administrator. Files are looked for on this machine, as usual. */
  kubectlCommand(...args: string[]): Command {
    const kubectl = join(this.tools.kubernetes, "kubectl");
    return [...this.#whereServerIs, kubectl, `--kubeconfig=${this.kubeconfig}`, ...args];
  }

  /** The command that runs a program whose `kubectl` is the administrator's; kubectl finds its plugins in the PATH. */
  administratorCommand(...command: Command): Command {
    const path = `PATH=${this.tools.kubernetes}:${process.env.PATH}`;
    return [...this.#whereServerIs, "env", path, `KUBECONFIG=${this.kubeconfig}`, ...command];
  }

  /** Only the network is that of the control plane's host; files are this machine's. */
  get #whereServerIs(): Command {
    return ["nsenter", `--target=${this.controlPlane.host.pid}`, "-n"];
  }

  /** Runs kubectl as the administrator and returns its standard output. Throws if it fails. */
  async kubectl(...args: string[]): Promise<string> {
    return run(this.kubectlCommand(...args));
  }

  /** Runs kubectl as the administrator, whatever its exit status. */
  async tryKubectl(...args: string[]): Promise<RunResult> {
    return tryRun(this.kubectlCommand(...args));
  }

  /** Applies manifests: YAML text, or one object. */
  async apply(manifest: string | object): Promise<string> {
    const input = typeof manifest === "string" ? manifest : JSON.stringify(manifest);
    return run(this.kubectlCommand("apply", "--filename=-"), { input });
  }

  /** Reads objects of the API as `kubectl get ARGS --output=json` gives them. */
  async get<T = unknown>(...args: string[]): Promise<T> {
    return JSON.parse(await this.kubectl("get", ...args, "--output=json")) as T;
  }

  /** Runs a program on the node, in its namespaces. Throws if it fails. */
  async inNode(command: Command, options: RunOptions = {}): Promise<string> {
    return this.node.host.run(command, options);
  }

  /** Makes an image known to the node: an archive that writeImage() has made. */
  async loadImage(archive: string): Promise<void> {
    await this.node.loadImage(archive);
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
  async stop(): Promise<void> {
    await this.node.kill();
    await this.controlPlane.host.kill();
    await this.#reaper.reap();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Waits until pods can be made in a namespace: they need its default service account. */
export async function waitForServiceAccount(
  cluster: Pick<Cluster, "tryKubectl">,
  namespace: string,
): Promise<void> {
  const read = ["get", "serviceaccount", "default", `--namespace=${namespace}`];
  await waitUntil(
    `namespace ${namespace} has its default service account`,
    async () => (await cluster.tryKubectl(...read)).exitCode === 0,
    { intervalMs: 200 },
  );
}

/** How a cluster is started. */
export interface ClusterOptions {
  /** The directory for its logs, which then stay. @default $PLEXUS_E2E_LOGS, else in the cluster's directory */
  readonly logs?: string;
  /** The node's container runtime. @default $PLEXUS_E2E_RUNTIME, else containerd */
  readonly runtime?: string;
}

async function nodeRuntime(name: string, tools: Tools): Promise<NodeRuntime> {
  if (name === "containerd") return new Containerd(tools);
  if (name === "crio") return new Crio(await prepareCrioTools());
  throw new Error(`no such container runtime: ${name}; there are containerd and crio`);
}

/**
 * Starts a cluster and waits until its node is ready and pods can be made. If that fails, or this process dies,
 * nothing is left of it but logs that were written to another directory.
 */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  const tools = await prepareTools();
  const { runtime = process.env.PLEXUS_E2E_RUNTIME || "containerd" } = options;
  const directory = await mkdtemp(join(tmpdir(), "plexus-e2e-"));
  const cgroup = basename(directory);
  const reaper = new Reaper({ directory, cgroup });
  const hosts = new AsyncDisposableStack();
  try {
    const logs = options.logs ?? process.env.PLEXUS_E2E_LOGS ?? join(directory, "logs");
    const authority = await CertificateAuthority.create(join(directory, "pki"));
    const controlPlane = await ControlPlane.start({ tools, directory, logs, authority });
    hosts.defer(() => controlPlane.host.kill());
    const node = await ClusterNode.create({
      tools,
      runtime: await nodeRuntime(runtime, tools),
      name: "node-1",
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
