import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa, type Result } from "execa";
import { NetnsLab } from "./netns-lab.ts";
import { cniPluginDir, distPath, nodeBinary } from "./paths.ts";
import { type PodOptions, TestPod } from "./test-pod.ts";

/** What one CNI call printed and exited with. */
export interface CallOutcome {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  /** stdout as JSON; undefined when it is empty. */
  readonly json: unknown;
}

/** A call that is being made: its shim can be watched and killed. */
export interface RunningCall {
  readonly pid: number;
  readonly outcome: Promise<CallOutcome>;
}

/** A CNI error as printed. */
export interface PrintedError {
  readonly cniVersion: string;
  readonly code: number;
  readonly msg: string;
  readonly details?: string;
}

/** One CNI call as a runtime makes it. */
export interface CniCall {
  readonly command: "ADD" | "DEL" | "CHECK" | "STATUS" | "GC" | "VERSION";
  readonly containerId?: string;
  /** Name of a namespace of the lab; its path becomes CNI_NETNS. */
  readonly netns?: string;
  readonly ifName?: string;
  /** `namespace/name`, optionally with `@uid`, for the K8S_* arguments. */
  readonly pod?: string;
  /** More CNI_ARGS, e.g. `IP=10.0.0.5`. */
  readonly args?: string;
  readonly conf: object | string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Where a definition is, and what it says besides its configuration. */
export interface NadOptions {
  readonly namespace?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A lab with the built daemon and shim: what a runtime on a node finds. */
export class PlexusNode implements AsyncDisposable {
  readonly lab: NetnsLab;
  /** Searched for plugins: the reference plugins unless the test adds directories before them. */
  cniPath: string[] = [cniPluginDir()];
  shim: string = distPath("plexus");
  /** The default network that {@link conf} delegates to. */
  defaultNetwork: object = { cniVersion: "1.0.0", name: "default", type: "unset" };
  /** Keys of the runtime's conf, and its version. */
  confExtra: object = {};
  readonly #daemons: ChildProcess[] = [];
  #log = "";

  private constructor(lab: NetnsLab) {
    this.lab = lab;
  }

  /** Makes the lab and, unless told otherwise, starts the daemon on an empty manifests directory. */
  static async create(options: { daemon?: boolean } = {}): Promise<PlexusNode> {
    const node = new PlexusNode(await NetnsLab.create());
    await mkdir(node.manifestsDir, { recursive: true });
    if (options.daemon ?? true) await node.startDaemon();
    return node;
  }

  get stateDir(): string {
    return join(this.lab.dir, "state");
  }

  get manifestsDir(): string {
    return join(this.lab.dir, "manifests");
  }

  get socketPath(): string {
    return join(this.lab.dir, "run/plexus.sock");
  }

  /** Everything that the daemons of this node logged. */
  get log(): string {
    return this.#log;
  }

  /** Writes one manifest file: objects become one YAML document each (JSON is YAML). */
  async manifest(name: string, ...objects: object[]): Promise<void> {
    const text = objects.map((object) => JSON.stringify(object)).join("\n---\n");
    const path = join(this.manifestsDir, `${name}.yaml`);
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
  }

  /** The network-status that was published for a pod; undefined when there is none. */
  async networkStatus(pod: string): Promise<Record<string, unknown>[] | undefined> {
    const path = join(this.manifestsDir, ".status", `${pod}.json`);
    return existsSync(path) ? JSON.parse(await readFile(path, "utf8")) : undefined;
  }

  /** Writes a NetworkAttachmentDefinition. */
  async nad(name: string, config: object | undefined, options: NadOptions = {}): Promise<void> {
    const { namespace = "default", annotations = {} } = options;
    await this.manifest(`nad-${namespace}-${name}`, {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { name, namespace, annotations },
      spec: config === undefined ? {} : { config: JSON.stringify(config) },
    });
  }

  /** Makes a pod: its manifest and its network namespace. */
  pod(name: string, options: PodOptions = {}): Promise<TestPod> {
    return TestPod.create(this, name, options);
  }

  /** The conf that the runtime hands over. */
  conf(extra: object = {}): object {
    const network = { cniVersion: "1.0.0", name: "plexus", type: "plexus" };
    return { ...network, delegates: [this.defaultNetwork], ...this.confExtra, ...extra };
  }

  /** Starts a daemon and waits until it serves; one that runs already is to hand over. */
  async startDaemon(...flags: string[]): Promise<void> {
    const [file, ...args] = this.lab.command(nodeBinary(), distPath("plexusd.js"));
    const own = ["--socket", this.socketPath, "--state-dir", this.stateDir, "--http", "off"];
    const source = flags.some((f) => f === "--manifests") ? [] : ["--manifests", this.manifestsDir];
    const daemon = spawn(file, [...args, ...own, ...source, ...flags], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#daemons.push(daemon);
    const before = this.#log.length;
    daemon.stderr?.on("data", (chunk: Buffer) => {
      this.#log += chunk.toString();
    });
    while (!this.#log.slice(before).includes("plexusd serves")) {
      if (daemon.exitCode !== null)
        throw new Error(`plexusd exited with ${daemon.exitCode}: ${this.#log}`);
      await sleep(10);
    }
  }

  /** The daemon that was started last. */
  get daemonPid(): number {
    return this.#daemons.at(-1)?.pid as number;
  }

  /** Ends the oldest daemon: SIGTERM lets it finish, SIGKILL does not. */
  async stopDaemon(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    const daemon = this.#daemons.shift();
    if (daemon === undefined || daemon.exitCode !== null || daemon.signalCode !== null) return;
    const exited = new Promise((resolve) => daemon.once("exit", resolve));
    daemon.kill(signal);
    await exited;
  }

  /** Environment of a call, as a runtime sets it. */
  environment(call: CniCall): Record<string, string> {
    const [podPath, uid] = (call.pod ?? "").split("@");
    const [namespace, name] = (podPath ?? "").split("/");
    const podArgs =
      call.pod === undefined
        ? []
        : [
            `K8S_POD_NAMESPACE=${namespace}`,
            `K8S_POD_NAME=${name}`,
            `K8S_POD_INFRA_CONTAINER_ID=${call.containerId ?? ""}`,
            ...(uid === undefined ? [] : [`K8S_POD_UID=${uid}`]),
          ];
    const args = ["IgnoreUnknown=1", ...podArgs, ...(call.args === undefined ? [] : [call.args])];
    const attachment =
      call.containerId === undefined
        ? {}
        : {
            CNI_CONTAINERID: call.containerId,
            CNI_NETNS: call.netns === undefined ? "" : `/run/netns/${call.netns}`,
            CNI_IFNAME: call.ifName ?? "eth0",
            CNI_ARGS: args.join(";"),
          };
    return {
      PATH: process.env.PATH ?? "",
      PLEXUS_SOCKET: this.socketPath,
      PLEXUS_STATE_DIR: this.stateDir,
      PLEXUS_STANDALONE: "",
      CNI_COMMAND: call.command,
      CNI_PATH: this.cniPath.join(":"),
      ...attachment,
      ...call.env,
    };
  }

  /** Runs the shim as a runtime does. Never throws: what went wrong is in the outcome. */
  call(call: CniCall): Promise<CallOutcome> {
    return this.start(call).outcome;
  }

  /** The same, without waiting for its end. */
  start(call: CniCall): RunningCall {
    const input = typeof call.conf === "string" ? call.conf : JSON.stringify(call.conf);
    const [file, ...args] = this.lab.command(this.shim);
    const env = this.environment(call);
    // nsenter becomes the shim: it forks for no namespace but a PID namespace.
    const child = execa(file, args, {
      input,
      env,
      extendEnv: false,
      stripFinalNewline: false,
      reject: false,
    });
    return {
      pid: child.pid as number,
      outcome: child.then((result) => outcomeOf(result as Result)),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    while (this.#daemons.length > 0) await this.stopDaemon("SIGKILL");
    await this.lab[Symbol.asyncDispose]();
  }
}

function outcomeOf(result: Result): CallOutcome {
  const stdout = String(result.stdout ?? "");
  return {
    exitCode: result.exitCode ?? -1,
    stdout,
    stderr: String(result.stderr ?? ""),
    json: stdout.trim() === "" ? undefined : JSON.parse(stdout),
  };
}

/** The error that a call printed; throws when it succeeded. */
export function errorOf(outcome: CallOutcome): PrintedError {
  if (outcome.exitCode !== 1) throw new Error(`expected exit status 1: ${JSON.stringify(outcome)}`);
  return outcome.json as PrintedError;
}
