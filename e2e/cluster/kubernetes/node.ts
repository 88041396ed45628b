import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Crio } from "../../crio/crio.ts";
import { prepareCrioTools } from "../../crio/tools.ts";
import type { Daemon } from "../../support/daemon.ts";
import type { Host } from "../machine/host.ts";
import { type Command, run } from "../machine/run.ts";
import {
  type NodeRuntime,
  RuntimeMachine,
  type RuntimeMachineOptions,
} from "../machine/runtime-machine.ts";
import {
  addresses,
  controlPlaneBridge,
  type NodeAddresses,
  nodeAddresses,
  nodeInterface,
} from "./addresses.ts";
import { Containerd } from "./containerd.ts";
import { kubeletConfig, primaryNetwork, serviceRules, type Taint } from "./node-config.ts";
import type { CertificateAuthority } from "./pki.ts";
import { programPath, type Tools } from "./tools.ts";

/** What a node is made from; its root, logs and control group have its name. */
export interface NodeOptions extends Pick<RuntimeMachineOptions, "logs" | "cgroup" | "images"> {
  readonly tools: Tools;
  /** The cluster's directory. */
  readonly directory: string;
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

  private constructor(options: NodeOptions, runtime: NodeRuntime) {
    const { init, cniPlugins } = options.tools;
    const own = nodeAddresses(options.index);
    const name = `node-${options.index}`;
    super({
      ...{ name, init, cniPlugins, runtime, images: options.images },
      primaryNetwork: primaryNetwork(own),
      root: join(options.directory, name),
      logs: join(options.logs, name),
      cgroup: `${options.cgroup}-${name}`,
    });
    this.#addresses = own;
    this.#options = options;
  }

  /** Writes a new node's files. Nothing runs yet. */
  static async create(options: NodeOptions): Promise<ClusterNode> {
    const node = new ClusterNode(options, await nodeRuntime(options.tools));
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
    await host.run(["nft", "--file", "-"], { input: serviceRules(addresses.apiServerPort) });
  }

  get #kubeletConfig(): string {
    return this.at("kubelet.json");
  }

  async #writeKubeletFiles(): Promise<void> {
    const { tools, authority, taints = [] } = this.#options;
    const identity = { commonName: `system:node:${this.name}`, organization: "system:nodes" };
    this.#kubeconfig = await authority.kubeconfig(identity);
    const altNames = [`IP:${this.#addresses.node}`, `DNS:${this.name}`];
    const server = await authority.issue({ commonName: this.name, altNames });
    const own = {
      containerRuntimeEndpoint: `unix://${this.runtime.socket}`,
      authentication: { x509: { clientCAFile: authority.certificate } },
      registerWithTaints: taints,
      tlsCertFile: server.certificate,
      tlsPrivateKeyFile: server.key,
      cgroupRoot: `/${this.cgroup}`,
    };
    await writeFile(this.#kubeletConfig, kubeletConfig(own, tools.kubernetesMinor));
  }
}

/** The container runtime that PLEXUS_E2E_RUNTIME names, built if it is not in the cache yet. */
export async function nodeRuntime(tools: Tools): Promise<NodeRuntime> {
  const name = process.env.PLEXUS_E2E_RUNTIME || "containerd";
  if (name === "containerd") return new Containerd(tools);
  if (name === "crio") return new Crio(await prepareCrioTools());
  throw new Error(`no such container runtime: ${name}; there are containerd and crio`);
}
