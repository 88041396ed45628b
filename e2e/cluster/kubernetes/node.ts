import { writeFile } from "node:fs/promises";
import type { Daemon } from "../../support/daemon.ts";
import type { Host } from "../machine/host.ts";
import { type Command, run } from "../machine/run.ts";
import { RuntimeMachine, type RuntimeMachineOptions } from "../machine/runtime-machine.ts";
import {
  addresses,
  controlPlaneBridge,
  type NodeAddresses,
  nodeAddresses,
  nodeInterface,
} from "./addresses.ts";
import { kubeletConfig, primaryNetwork, serviceRules, type Taint } from "./node-config.ts";
import type { CertificateAuthority } from "./pki.ts";
import { programPath, type Tools } from "./tools.ts";

/** What a node is made from. */
export interface NodeOptions
  extends Pick<RuntimeMachineOptions, "runtime" | "root" | "logs" | "cgroup" | "images"> {
  readonly tools: Tools;
  /** 1 for the first node of the cluster, 2 for the second, and so on. */
  readonly index: number;
  readonly authority: CertificateAuthority;
  /** The host at the other end of the node's network link. */
  readonly controlPlane: Host;
  /** What the node registers with. @default none */
  readonly taints?: readonly Taint[];
}

const kubeletHealth = "http://127.0.0.1:10248/healthz";

/** A machine with a container runtime and the kubelet, connected to the control plane. */
export class ClusterNode extends RuntimeMachine {
  readonly #options: NodeOptions;
  readonly #addresses: NodeAddresses;
  #kubelet: Daemon | undefined;
  #kubeconfig = "";

  private constructor(options: NodeOptions, own: NodeAddresses) {
    const { init, cniPlugins } = options.tools;
    const name = `node-${options.index}`;
    super({ ...options, name, init, cniPlugins, primaryNetwork: primaryNetwork(own) });
    this.#addresses = own;
    this.#options = options;
  }

  /** Writes a new node's files. Nothing runs yet. */
  static async create(options: NodeOptions): Promise<ClusterNode> {
    const node = new ClusterNode(options, nodeAddresses(options.index));
    await node.writeFiles();
    await node.#writeKubeletFiles();
    return node;
  }

  /** Starts the node, which must be down: a boot, with the files that the last one left. */
  async start(): Promise<void> {
    try {
      await this.boot((host) => this.#connect(host));
      await this.startKubelet();
    } catch (error) {
      await this.kill();
      throw error;
    }
  }

  /** Ends everything on the node at once: a power cut. */
  async kill(): Promise<void> {
    if (!this.isUp) return;
    await this.powerOff();
    this.#kubelet = undefined;
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
    return this.at("kubelet.json");
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
