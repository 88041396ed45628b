import { existsSync, statSync } from "node:fs";
import { copyFile, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { podObject } from "#kube/testing/objects.ts";
import type { JsonObject } from "#lib/json.ts";
import { Daemon } from "../../support/daemon.ts";
import type { HostState, HostStateKind } from "../../support/host-state.ts";
import { bridge, chained, defaultRoutes, hostLocal, ptp } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { PlexusNode } from "../../support/node/plexus-node.ts";
import type { TestPod } from "../../support/node/test-pod.ts";
import { cniPluginDir, repositoryRoot } from "../../support/paths.ts";
import { shimEnvironment, startPlexusd } from "../../support/plexusd.ts";
import { waitUntil } from "../../support/wait.ts";

const networksKey = "k8s.v1.cni.cncf.io/networks";
const statusKey = "k8s.v1.cni.cncf.io/network-status";
const strikingPlugin = join(repositoryRoot, "e2e/conformance/kills/striking-plugin.sh");

const dual = (net: number): object => ({
  ipam: hostLocal(net, { v6: true, routes: defaultRoutes }),
});

/** One network of a published status. */
export interface StatusEntry {
  readonly name: string;
  readonly interface: string;
  readonly ips: readonly string[];
}

/**
 * A node with an API server, plexusd with `hotPlug: true` and `plexus agent --attach`. The plugins are real; each notes when
 * it begins and ends, and can have a process killed then.
 */
export class HotPlugNode implements AsyncDisposable {
  readonly node: PlexusNode;
  readonly api: FakeApiServer;
  #plexusd: Daemon | undefined;
  #agent: Daemon | undefined;
  #untouched: HostState | undefined;

  private constructor(node: PlexusNode, api: FakeApiServer) {
    this.node = node;
    this.api = api;
  }

  /**
   * Networks: the default network `main`, and the definitions `front`, `back`, `routed` and `shaped`. `back`
   * names the marker of a bridge, as KubeVirt's definitions do [D-35]. `main` and `routed` have
   * default routes of both families. `shaped` limits a pod that asks for that.
   */
  static async create(more: JsonObject = {}): Promise<HotPlugNode> {
    const self = new HotPlugNode(await PlexusNode.create(), await FakeApiServer.start());
    const { node, api, binDir, confDir } = self;
    for (const dir of [binDir, confDir]) await mkdir(dir);
    await symlink(cniPluginDir(), join(binDir, "real"));
    for (const type of ["ptp", "bridge", "host-local", "bandwidth"])
      await copyFile(strikingPlugin, join(binDir, type));
    await copyFile(node.shim, join(binDir, "plexus"));
    await writeFile(self.eventsFile, "");
    await writeFile(join(confDir, "10-main.conflist"), JSON.stringify(ptp("main", 20, dual(20))));
    const marker = { "k8s.v1.cni.cncf.io/resourceName": "bridge.network.kubevirt.io/back" };
    const back = nad("back", bridge("back", 22), { annotations: marker });
    const shaping = { type: "bandwidth", capabilities: { bandwidth: true } };
    const shaped = nad("shaped", chained(bridge("shaped", 24), shaping));
    api.put("network-attachment-definitions", shaped as JsonObject);
    const routed = nad("routed", bridge("routed", 23, dual(23)));
    api.put("network-attachment-definitions", routed as JsonObject);
    api.put("network-attachment-definitions", nad("front", bridge("front", 21)) as JsonObject);
    api.put("network-attachment-definitions", back as JsonObject);
    const clusterNetwork = join(confDir, "10-main.conflist");
    const config = { hotPlug: true, cniBinDir: binDir, clusterNetwork, ...more };
    await writeFile(join(node.lab.dir, "config.yaml"), JSON.stringify(config));
    node.cniPath = [binDir];
    await self.startPlexusd();
    const conf = join(confDir, "00-plexus.conflist");
    await waitUntil("plexusd has written the node's configuration", () => existsSync(conf));
    const { name, plugins } = JSON.parse(await readFile(conf, "utf8"));
    node.confExtra = { ...plugins[0], name, delegates: undefined };
    return self;
  }

  get binDir(): string {
    return join(this.node.lab.dir, "bin");
  }

  get confDir(): string {
    return join(this.node.lab.dir, "net.d");
  }

  /** Gets a line when a plugin begins, and another one when it ends. */
  get eventsFile(): string {
    return join(this.binDir, "events");
  }

  /** plexusd reaches the API server of this machine, so it is in the lab's mount namespace only. */
  async startPlexusd(): Promise<void> {
    const { lab, stateDir, socketPath: socket } = this.node;
    const kubeconfig = await this.api.kubeconfig({ token: "t" });
    const config = join(lab.dir, "config.yaml");
    const source = ["--kubeconfig", kubeconfig, "--config", config, "--node", "node-1"];
    this.#plexusd = await startPlexusd({
      ...{ socket, stateDir, logFile: join(lab.dir, "plexusd.log") },
      flags: [...source, "--cni-conf-dir", this.confDir],
      enter: (...command) => ["nsenter", "-t", `${lab.pid}`, "--mount", "--", ...command],
    });
  }

  async startAgent(...options: string[]): Promise<void> {
    const { lab, stateDir, socketPath: socket, shim } = this.node;
    const env = { ...shimEnvironment({ socket, stateDir }), CNI_PATH: this.binDir };
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    this.#agent = Daemon.start({
      name: "plexus agent",
      command: lab.command("env", ...variables, shim, "agent", "--attach", ...options),
      logFile: join(lab.dir, "agent.log"),
    });
  }

  async stopPlexusd(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    await this.#plexusd?.stop(signal);
  }

  /** SIGSTOP or SIGCONT. */
  signalPlexusd(signal: "SIGSTOP" | "SIGCONT"): void {
    process.kill(this.#plexusd?.pid ?? Number.NaN, signal);
  }

  async stopAgent(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    await this.#agent?.stop(signal);
  }

  /** Whether a DEL of the sandbox has begun: protocol.h has the mark. */
  isMarked({ recordPath }: TestPod): boolean {
    return (statSync(recordPath).mode & 0o7777) === 0o1600;
  }

  /** Has a process killed at the n-th event from now on; `hold`: that plugin waits for {@link release}. */
  async strike(step: number, victim: "plexusd" | "agent" | "hold"): Promise<void> {
    const daemons = { plexusd: this.#plexusd, agent: this.#agent };
    const target = victim === "hold" ? victim : daemons[victim]?.pid;
    await writeFile(this.eventsFile, "");
    await writeFile(join(this.binDir, "hold"), "");
    await writeFile(join(this.binDir, "strike"), `${step} ${target}\n`);
  }

  /** Whether the last strike was carried out. */
  get hasStruck(): boolean {
    return !existsSync(join(this.binDir, "strike"));
  }

  async release(): Promise<void> {
    await rm(join(this.binDir, "hold"));
  }

  /** Starts again what was killed. */
  async repair(victim: "plexusd" | "agent"): Promise<void> {
    if (victim === "plexusd") {
      await this.stopPlexusd();
      await this.startPlexusd();
    } else {
      await this.stopAgent();
      await this.startAgent();
    }
  }

  /** A running pod, attached with these networks. */
  async pod(name: string, networks: string | readonly object[]): Promise<HotPlugPod> {
    const uid = `uid-of-${name}`;
    const pod = new HotPlugPod(this, await this.node.pod(name, { uid, networks }));
    pod.edit(networks);
    await pod.sandbox.mustAdd();
    await waitUntil("the status is published", () => pod.status.length > 0);
    return pod;
  }

  /** Attaches and detaches a pod, after which only what plugins keep for good is there, such as bridges. */
  async warmUp(): Promise<void> {
    const pod = await this.pod("first", "front,back,routed,shaped");
    await pod.sandbox.mustDel();
    this.#untouched = await this.node.hostState();
  }

  /** What is on the host since {@link warmUp}, other than pods' network namespaces. */
  left(): Promise<string[]> {
    return this.node.changesSince(this.#untouched ?? {}, [
      ...["links", "addresses", "routes", "address leases"],
      ...["attachment records", "locks", "temporary files"],
    ] as HostStateKind[]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopAgent();
    await this.stopPlexusd();
    await this.api[Symbol.asyncDispose]();
    await this.node[Symbol.asyncDispose]();
  }
}

interface EventObject {
  readonly involvedObject: { readonly name: string };
  readonly reason: string;
  readonly message: string;
}

/** A pod whose annotation can be edited. */
export class HotPlugPod {
  readonly sandbox: TestPod;
  readonly #host: HotPlugNode;

  constructor(host: HotPlugNode, sandbox: TestPod) {
    this.#host = host;
    this.sandbox = sandbox;
  }

  /** Sets the networks annotation, as `kubectl annotate` does. */
  edit(networks: string | readonly object[]): void {
    const text = typeof networks === "string" ? networks : JSON.stringify(networks);
    this.#annotate(networksKey, text);
  }

  /** Writes a status as another component would. */
  overwriteStatus(entries: readonly StatusEntry[]): void {
    this.#annotate(statusKey, JSON.stringify(entries));
  }

  #annotate(key: string, text: string): void {
    const { api } = this.#host;
    const { name } = this.sandbox;
    const { metadata, ...rest } = (api.objects("pods").get(`default/${name}`) ??
      podObject(name)) as {
      metadata: { annotations: JsonObject };
    };
    const annotations = { ...metadata.annotations, [key]: text };
    const status = { phase: "Running" };
    api.put("pods", { ...rest, status, metadata: { ...metadata, annotations } });
  }

  /** The published status without the default network. */
  get status(): StatusEntry[] {
    const pod = this.#host.api.objects("pods").get(`default/${this.sandbox.name}`) as
      | { metadata: { annotations: Record<string, string> } }
      | undefined;
    return JSON.parse(pod?.metadata.annotations[statusKey] ?? "[]");
  }

  /** `interface network` of each entry of the published status. */
  get shown(): string[] {
    return this.status.map((entry) => `${entry.interface} ${entry.name.replace("default/", "")}`);
  }

  /** `reason: message` of the pod's events. */
  get events(): string[] {
    return [...this.#host.api.objects("events").values()].flatMap((event) => {
      const { involvedObject, reason, message } = event as unknown as EventObject;
      return involvedObject.name === this.sandbox.name ? [`${reason}: ${message}`] : [];
    });
  }

  /**
   * Waits until the status and the interfaces of the pod are these: `interface network` each. The
   * status is read last, so what the caller reads next is the status that was compared.
   */
  async becomes(...expected: string[]): Promise<void> {
    const wanted = ["eth0 main", ...expected];
    await waitUntil(`the pod has ${wanted.join(", ")}`, async () => {
      const links = Object.keys(await this.sandbox.links());
      const names = wanted.map((each) => each.split(" ")[0]);
      if (links.toSorted().join() !== names.toSorted().join()) throw new Error(links.join());
      if (this.shown.join() !== wanted.join()) throw new Error(this.shown.join());
      return true;
    });
  }
}
