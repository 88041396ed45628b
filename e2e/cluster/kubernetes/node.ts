// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from "node:crypto";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Daemon } from "../../support/daemon.ts";
import { clearCgroups, makeCgroups } from "../machine/cgroups.ts";
import { Host } from "../machine/host.ts";
import { type Command, run } from "../machine/run.ts";
import {
  addresses,
  controlPlaneBridge,
  type NodeAddresses,
  nodeAddresses,
  nodeInterface,
} from "./addresses.ts";
import { kubeletConfig, primaryNetwork, serviceRules, type Taint } from "./node-config.ts";
import type { CertificateAuthority } from "./pki.ts";
import type { NodeRuntime } from "./runtime.ts";
import { programPath, type Tools } from "./tools.ts";

/** What a node is made from. */
export interface NodeOptions {
  readonly tools: Tools;
  readonly runtime: NodeRuntime;
  /** 1 for the first node of the cluster, 2 for the second, and so on. */
  readonly index: number;
  /** The directory that keeps what a reboot leaves. */
  readonly root: string;
  readonly logs: string;
  /** The control group to keep the node's pods in. */
  readonly cgroup: string;
  readonly authority: CertificateAuthority;
  /** The host at the other end of the node's network link. */
  readonly controlPlane: Host;
  /** Image archives to have from the start. */
  readonly images: readonly string[];
  /** What the node registers with. @default none */
  readonly taints?: readonly Taint[];
}

const kubeletHealth = "http://127.0.0.1:10248/healthz";

/** A container runtime and the kubelet, on a separate host that can be killed and started again. */
export class ClusterNode {
  /** `node-1` for the first node, and so on. */
  readonly name: string;
  /** What a reboot keeps, seen from outside: the node's /etc/cni is `${root}/etc/cni`, and so on. */
  readonly root: string;
  readonly #options: NodeOptions;
  readonly #addresses: NodeAddresses;
  #host: Host | undefined;
  #kubelet: Daemon | undefined;
  #kubeconfig = "";
  #bootId = "";

  private constructor(options: NodeOptions) {
    this.name = `node-${options.index}`;
    this.root = options.root;
    this.#addresses = nodeAddresses(options.index);
    this.#options = options;
  }

  /** Writes a new node's files. Nothing runs yet. */
  static async create(options: NodeOptions): Promise<ClusterNode> {
    const node = new ClusterNode(options);
    await mkdir(node.cniConfDir, { recursive: true });
    await cp(options.tools.cniPlugins, node.cniBinDir, { recursive: true });
    await writeFile(join(node.cniConfDir, "10-primary.conflist"), primaryNetwork(node.#addresses));
    await writeFile(join(node.root, "machine-id"), `${randomUUID().replaceAll("-", "")}\n`);
    await options.runtime.writeFiles(node.root);
    await node.#writeKubeletFiles();
    await makeCgroups(options.cgroup);
    return node;
  }

  /** The node's /etc/cni/net.d, seen from outside. */
  get cniConfDir(): string {
    return join(this.root, "etc/cni/net.d");
  }

  /** The node's /opt/cni/bin, seen from outside. */
  get cniBinDir(): string {
    return join(this.root, "opt/cni/bin");
  }

  /** Where the container runtime listens, on the node. */
  get runtimeSocket(): string {
    return this.#options.runtime.socket;
  }

  /** Names the current boot, or the last one while the node is down. */
  get bootId(): string {
    return this.#bootId;
  }

  /** The host that the node runs on. Throws while the node is down. */
  get host(): Host {
    if (this.#host === undefined) {
      throw new Error(`node ${this.name} is down`);
    }
    return this.#host;
  }

  /** Starts the node, which must be down: a boot, with the files that the last one left. */
  async start(): Promise<void> {
    this.#host = await this.#startHost();
    try {
      await this.#connect(this.#host);
      await this.#options.runtime.start(this.#host);
      for (const archive of this.#options.images) {
        await this.loadImage(archive);
      }
      await this.startKubelet();
    } catch (error) {
      await this.kill();
      throw error;
    }
  }

  /** Ends everything on the node at once: a power cut. */
  async kill(): Promise<void> {
    if (this.#host === undefined) {
      return;
    }
    await this.#host.kill();
    this.#host = undefined;
    this.#kubelet = undefined;
    await this.#options.runtime.stop();
    await clearCgroups(this.#options.cgroup);
    // The kernel takes the link away too, but in its own time.
    await this.#options.controlPlane.tryRun(["ip", "link", "delete", this.name]);
  }

  /** Starts the kubelet, which must not be running, and waits until it is healthy. */
  async startKubelet(): Promise<void> {
    const daemon = await this.host.startDaemon("kubelet", [
      "env",
      `PATH=${programPath(this.#options.tools)}`,
      "kubelet",
      `--config=${this.#kubeletConfig}`,
      `--kubeconfig=${this.#kubeconfig}`,
      `--hostname-override=${this.name}`,
      `--node-ip=${this.#addresses.node}`,
    ]);
    this.#kubelet = daemon;
    const ask: Command = [this.#options.tools.busybox, "wget", "-qO-", kubeletHealth];
    const healthy = async (): Promise<boolean> => (await this.host.tryRun(ask)).exitCode === 0;
    await daemon.waitUntil("the kubelet is healthy", healthy, { intervalMs: 100 });
  }

  /** Stops the kubelet. Pods go on running. */
  async stopKubelet(): Promise<void> {
    await this.#kubelet?.stop();
    this.#kubelet = undefined;
  }

  /** Restarts the container runtime. Pods go on running. */
  async restartRuntime(): Promise<void> {
    await this.#options.runtime.stop();
    await this.#options.runtime.start(this.host);
  }

  /** Makes the images in an archive that writeImage() has made known to the container runtime, for pods. */
  async loadImage(archive: string): Promise<void> {
    await this.host.run([...this.importCommand(), archive]);
  }

  /** The command that imports the image archives it is given. To be run on the node. */
  importCommand(): Command {
    return this.#options.runtime.importCommand();
  }

  async #startHost(): Promise<Host> {
    this.#bootId = randomUUID();
    await writeFile(join(this.root, "boot-id"), `${this.#bootId}\n`);
    return Host.start({
      name: this.name,
      init: this.#options.tools.init,
      logs: this.#options.logs,
      setup: await readFile(join(import.meta.dirname, "node-setup.sh"), "utf8"),
      args: [this.root],
    });
  }

  /** Plugs the cable in, and makes the node's pods and the API server's Service known. */
  async #connect(host: Host): Promise<void> {
    const { controlPlane } = this.#options;
    const peer = ["peer", "name", nodeInterface, "netns", String(host.pid)];
    const outside = ["nsenter", `--target=${controlPlane.pid}`, "-n", "ip"] as const;
    await run([...outside, "link", "add", this.name, "type", "veth", ...peer]);
    await run([...outside, "link", "set", this.name, "master", controlPlaneBridge, "up"]);
    const { node, podRange } = this.#addresses;
    await run([...outside, "route", "replace", podRange, "via", node]);
    const address = `${node}/${addresses.linkPrefix}`;
    await host.run(["ip", "address", "add", address, "dev", nodeInterface]);
    await host.run(["ip", "link", "set", nodeInterface, "up"]);
    await host.run(["ip", "route", "add", "default", "via", addresses.controlPlane]);
    await host.run(["nft", "--file", "-"], { input: serviceRules });
  }

  get #kubeletConfig(): string {
    return join(this.root, "kubelet.json");
  }

  async #writeKubeletFiles(): Promise<void> {
    const { tools, authority, cgroup, runtime, taints = [] } = this.#options;
    const identity = { commonName: `system:node:${this.name}`, organization: "system:nodes" };
    this.#kubeconfig = await authority.kubeconfig(identity);
    const altNames = [`IP:${this.#addresses.node}`, `DNS:${this.name}`];
    const server = await authority.issue({ commonName: this.name, altNames });
    const clientCAFile = authority.certificate;
    const config = kubeletConfig({
      kubernetesMinor: tools.kubernetesMinor,
      cgroup,
      socket: runtime.socket,
      server,
      clientCAFile,
      registerWithTaints: taints,
    });
    await writeFile(this.#kubeletConfig, config);
  }
}
