import { cp, mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { writePauseImage } from "../cluster/machine/images.ts";
import { Reaper } from "../cluster/machine/reaper.ts";
import type { Command, RunResult } from "../cluster/machine/run.ts";
import { RuntimeMachine, type RuntimeMachineOptions } from "../cluster/machine/runtime-machine.ts";
import type { Daemon } from "../support/daemon.ts";
import { type HostStateKind, readHostState } from "../support/host-state.ts";
import { manifestText } from "../support/node/manifests.ts";
import { distPath, nodeBinary } from "../support/paths.ts";
import { waitUntil } from "../support/wait.ts";
import { Crio } from "./crio.ts";
import { CrioPod } from "./pod.ts";
import { prepareCrioTools } from "./tools.ts";

const confDir = "/etc/cni/net.d";
const manifestsDir = "/etc/plexus/manifests";
const configFile = "/etc/plexus/config.yaml";

/** Where plexusd and the shim keep records when nothing else is configured. */
const stateDir = "/var/lib/plexus";

/** The files that attachments make. A power cut may leave temporary ones, which plexusd removes later. */
const comparedKinds: readonly HostStateKind[] = [
  "attachment records",
  "locks",
  "address leases",
  "cached results",
  "other plugin files",
];

/** plexusd's configuration: nothing else on the node is still to write a primary CNI's. */
const plexusConfig = { clusterNetwork: "/etc/cni/net.d/10-primary.conflist" };

/** The name of the primary CNI's network. */
const primaryName = "primary";

const primaryNetwork = {
  // GC exists since this version.
  cniVersion: "1.1.0",
  name: primaryName,
  plugins: [
    {
      type: "bridge",
      bridge: "cni0",
      isGateway: true,
      ipam: { type: "host-local", ranges: [[{ subnet: "10.244.0.0/24" }]] },
    },
  ],
};

/** A line of plexusd's log that reports a call. */
interface LoggedCall {
  readonly command?: string;
  readonly podName?: string;
  readonly msg: string;
}

/** A machine with CRI-O and, once started, plexusd, that can be killed and booted again. */
export class CrioNode extends RuntimeMachine implements AsyncDisposable {
  readonly #reaper: Reaper;
  readonly #crio: Crio;
  #plexusd: Daemon | undefined;

  private constructor(crio: Crio, options: Omit<RuntimeMachineOptions, "runtime">) {
    super({ ...options, runtime: crio });
    this.#crio = crio;
    this.#reaper = new Reaper({ directory: dirname(this.root), cgroup: this.cgroup });
  }

  /** A node that has booted, with CRI-O and a primary CNI, and without Plexus. */
  static async create(): Promise<CrioNode> {
    const tools = await prepareCrioTools();
    const { init, cniPlugins } = tools;
    const directory = await mkdtemp(join(tmpdir(), "plexus-crio-"));
    const node = new CrioNode(new Crio(tools), {
      ...{ name: "crio-node", init, cniPlugins, cgroup: basename(directory) },
      root: join(directory, "node"),
      logs: process.env.PLEXUS_E2E_LOGS ?? join(directory, "logs"),
      primaryNetwork: JSON.stringify(primaryNetwork),
      images: [await writePauseImage(init, directory)],
    });
    try {
      await node.#writePlexusFiles();
      await node.boot();
      return node;
    } catch (error) {
      await node[Symbol.asyncDispose]();
      throw error;
    }
  }

  override async powerOff(): Promise<void> {
    await super.powerOff();
    this.#plexusd = undefined;
  }

  /** Whether CRI-O would start pods. */
  async isNetworkReady(): Promise<boolean> {
    interface Condition {
      readonly type: string;
      readonly status?: boolean;
    }
    const { status } = await this.call<{ status: { conditions: Condition[] } }>("Status");
    return status.conditions.some(({ type, status }) => type === "NetworkReady" && status === true);
  }

  /**
   * Waits until CRI-O would start pods, as the kubelet does before it asks for a sandbox. A CRI-O 1.34 that was
   * asked earlier may hang when it is stopped: its CNIManager.Shutdown runs twice, and the second
   * one blocks on the channel of the request that waited.
   */
  async waitUntilNetworkIsReady(): Promise<void> {
    await waitUntil("CRI-O's network is ready", () => this.isNetworkReady());
  }

  /** Starts plexusd, and waits until CRI-O calls Plexus. */
  async startPlexusd(): Promise<void> {
    await this.startPlexusdWithoutConf("--cni-conf-dir", confDir);
    await this.waitForNetwork(primaryName);
  }

  /** Starts plexusd without letting it write the node's CNI configuration. */
  async startPlexusdWithoutConf(...flags: string[]): Promise<void> {
    const command: Command = [nodeBinary(), distPath("plexusd.js")];
    const own = ["--config", configFile, "--manifests", manifestsDir, "--http", "false"];
    const daemon = await this.host.startDaemon("plexusd", [...command, ...own, ...flags]);
    this.#plexusd = daemon;
    await daemon.waitUntil("plexusd serves", () => daemon.log.includes("plexusd serves"));
  }

  /** Waits until CRI-O's default network is ours, under this name. */
  async waitForNetwork(name: string): Promise<void> {
    await this.#crio.waitForNetwork(name);
  }

  /** Stops plexusd; the node's configuration stays. */
  async stopPlexusd(): Promise<void> {
    await this.#plexusd?.stop();
    this.#plexusd = undefined;
  }

  /** The calls that plexusd has answered since its start: `ADD web`, `GC`; `ADD web failed`. */
  calls(): string[] {
    const lines = (this.#plexusd?.log ?? "").split("\n").filter((line) => line.startsWith("{"));
    return lines
      .map((line) => JSON.parse(line) as LoggedCall)
      .filter(({ command, msg }) => command !== undefined && /^\w+ (done|failed)/.test(msg))
      .map(({ command, podName, msg }) =>
        [command, podName, msg.includes(" failed") ? "failed" : undefined]
          .filter((part) => part !== undefined)
          .join(" "),
      );
  }

  /** Writes a manifest for plexusd: objects become one YAML document each. */
  async manifest(name: string, ...objects: object[]): Promise<void> {
    await writeFile(this.at(`${manifestsDir}/${name}.yaml`), manifestText(objects));
  }

  /** Starts a pod's sandbox once the network is ready. @throws Error when CRI-O refuses */
  async runPod(name: string, networks?: string): Promise<CrioPod> {
    await this.waitUntilNetworkIsReady();
    return CrioPod.run(this, name, { networks });
  }

  /** Calls a method of CRI-O's RuntimeService. @throws Error with its message when it fails */
  async call<T = unknown>(method: string, request?: object): Promise<T> {
    return this.#crio.call<T>(method, request);
  }

  /** Runs plexusctl on the node, whatever its exit status. */
  async plexusctl(...args: string[]): Promise<RunResult> {
    return this.host.tryRun([nodeBinary(), distPath("plexusctl.js"), ...args]);
  }

  /** What attachments have left on the node, one line each: `attachment records: ./ID@eth0.record`. */
  async remains(): Promise<string[]> {
    const run = (command: Command): Promise<string> => this.host.run(command);
    const state = await readHostState({ run, stateDir }, { kinds: comparedKinds });
    const remaining = { ...state, links: await this.#veths() };
    return Object.entries(remaining).flatMap(([kind, lines]) =>
      lines.map((line) => `${kind}: ${line}`),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.powerOff();
    await this.#reaper.reap();
  }

  /** Not the bridges, which their plugin leaves on purpose. */
  async #veths(): Promise<string[]> {
    const shown = await this.host.run(["ip", "-json", "link", "show", "type", "veth"]);
    const links = JSON.parse(shown || "[]") as { readonly ifname?: string }[];
    return links.flatMap(({ ifname }) => ifname ?? []);
  }

  async #writePlexusFiles(): Promise<void> {
    await this.writeFiles();
    await mkdir(this.at(manifestsDir), { recursive: true });
    await cp(distPath("plexus"), join(this.cniBinDir, "plexus"));
    await writeFile(this.at(configFile), JSON.stringify(plexusConfig));
  }
}
