import { existsSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { execa, type Result } from "execa";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { differences, type HostState, type HostStateKind, readHostState } from "../host-state.ts";
import { cniPluginDir, distPath } from "../paths.ts";
import { waitUntil } from "../wait.ts";
import { type CallOutcome, type CniCall, outcomeOf, type RunningCall } from "./cni-call.ts";
import { cniEnvironment, type PodIdentity } from "./cni-environment.ts";
import { type EngineHost, engineHost } from "./engine-host.ts";
import { manifestText, type NadOptions, nad } from "./manifests.ts";
import { type LabOptions, NetnsLab } from "./netns-lab.ts";
import { type PodOptions, TestPod } from "./test-pod.ts";

/** A lab with the built shim, and the engine of this run's flavour: what a runtime on a node finds. */
export class PlexusNode implements AsyncDisposable {
  readonly lab: NetnsLab;
  /** Searched for plugins: the reference plugins unless the test adds directories before them. */
  cniPath: string[] = [cniPluginDir()];
  shim: string = distPath("plexus");
  /** The default network that {@link conf} delegates to. */
  defaultNetwork: object = { cniVersion: "1.0.0", name: "default", type: "unset" };
  /** Keys of the runtime's conf, and its version. */
  confExtra: object = {};
  readonly #engine: EngineHost;
  #pods = 0;

  private constructor(lab: NetnsLab, config: string | undefined) {
    this.lab = lab;
    const { stateDir, manifestsDir: manifests, socketPath: socket } = this;
    this.#engine = engineHost({ lab, config, paths: { stateDir, manifests, socket } });
  }

  /**
   * Makes the lab and an empty manifests directory; nothing serves yet.
   * @param options `daemonConfig` is the configuration file of its engine; without keys there is none
   */
  static async create({
    daemonConfig = {},
    ...labOptions
  }: { daemonConfig?: object } & LabOptions = {}): Promise<PlexusNode> {
    const lab = await NetnsLab.create(labOptions);
    const config = join(lab.dir, "config.yaml");
    await writeFile(config, JSON.stringify(daemonConfig));
    const isEmpty = Object.keys(daemonConfig).length === 0;
    const node = new PlexusNode(lab, isEmpty ? undefined : config);
    await mkdir(node.manifestsDir, { recursive: true });
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

  /** Everything that the engine of this node logged. */
  get log(): string {
    return this.#engine.log;
  }

  /** Writes one manifest file: objects become one YAML document each (JSON is YAML). */
  async manifest(name: string, ...objects: object[]): Promise<void> {
    const path = join(this.manifestsDir, `${name}.yaml`);
    await writeFile(`${path}.new`, manifestText(objects));
    await rename(`${path}.new`, path);
  }

  /** The network-status that was published for a pod; undefined when there is none. */
  async networkStatus(pod: string): Promise<Record<string, unknown>[] | undefined> {
    const path = join(this.manifestsDir, ".status", `${pod}.json`);
    return existsSync(path) ? JSON.parse(await readFile(path, "utf8")) : undefined;
  }

  /** Waits until all pods have the status of their records. */
  async statusesPublished(): Promise<void> {
    const records = await FileRecordStore.open(this.stateDir);
    await waitUntil("the statuses are published", async () => {
      const { records: all } = await records.list();
      const statuses = all.map(
        async ({ pod, pendingStatus: { [networkStatusAnnotation]: text } = {} }) => {
          if (pod === undefined || text === undefined) return true;
          const shown = await this.networkStatus(`${pod.namespace}/${pod.name}`);
          return isDeepStrictEqual(shown, JSON.parse(text));
        },
      );
      return (await Promise.all(statuses)).every(Boolean);
    });
  }

  /** Writes a NetworkAttachmentDefinition. */
  async nad(name: string, config: object | undefined, options: NadOptions = {}): Promise<void> {
    const { namespace = "default" } = options;
    await this.manifest(`nad-${namespace}-${name}`, nad(name, config, options));
  }

  /** Makes a pod: its manifest and its network namespace. */
  pod(name: string, options: PodOptions = {}): Promise<TestPod> {
    return TestPod.create(this, name, options);
  }

  /** Makes a pod whose name does not matter. */
  newPod(options: PodOptions = {}): Promise<TestPod> {
    return this.pod(`pod-${++this.#pods}`, options);
  }

  /** The conf that the runtime hands over. */
  conf(extra: object = {}): object {
    const network = { cniVersion: "1.0.0", name: "plexus", type: "plexus" };
    return { ...network, delegates: [this.defaultNetwork], ...this.confExtra, ...extra };
  }

  /**
   * Starts a daemon and waits until it serves; one that runs already is to hand over. Without a daemon, installs
   * plexus-standalone, whose only flag is `--config`.
   */
  async startDaemon(...flags: string[]): Promise<void> {
    await this.#engine.start(flags);
  }

  /** Ends the oldest daemon: SIGTERM lets it finish, SIGKILL does not. Without one, uninstalls plexus-standalone. */
  async stopDaemon(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    await this.#engine.stop(signal);
  }

  /** The process that serves a call: the daemon that was started last, or the call's plexus-standalone. */
  enginePid(call?: RunningCall): Promise<number> {
    return this.#engine.pidOf(call);
  }

  /** Kills that process. The next call needs another daemon. */
  killEngine(call: RunningCall): Promise<void> {
    return this.#engine.kill(call);
  }

  /** What plugins, Plexus and the pods have put on this node. */
  hostState(): Promise<HostState> {
    const { stateDir } = this;
    const run = (command: string[]): Promise<string> => this.lab.run(...command);
    const statusDir = join(this.manifestsDir, ".status");
    return readHostState({ run, stateDir, statusDir }, { contents: true });
  }

  /** What has come to the node since and what is gone, one line each. @param kinds are all unless given */
  async changesSince(before: HostState, kinds?: readonly HostStateKind[]): Promise<string[]> {
    return differences(before, await this.hostState(), kinds);
  }

  /** The variables that point a shim to what serves here. */
  get shimEnvironment(): Readonly<Record<string, string>> {
    return this.#engine.environment;
  }

  /** Environment of a call, as a runtime sets it. */
  environment(call: CniCall): Record<string, string> {
    const { containerId, netns, ifName } = call;
    const sandbox =
      containerId === undefined
        ? undefined
        : {
            containerId,
            netns: netns === undefined ? "" : `/run/netns/${netns}`,
            ifName,
            pod: call.pod === undefined ? undefined : podIdentity(call.pod),
          };
    const { command, args: extraArgs } = call;
    return {
      PATH: process.env.PATH ?? "",
      ...this.shimEnvironment,
      ...cniEnvironment({ command, cniPath: this.cniPath.join(":"), sandbox, extraArgs }),
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
      outcome: child.then((result) => {
        const outcome = outcomeOf(result as Result);
        this.#engine.printed(outcome.stderr);
        return outcome;
      }),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#engine[Symbol.asyncDispose]();
    await this.lab[Symbol.asyncDispose]();
  }
}

/** Reads `namespace/name` or `namespace/name@uid`. */
function podIdentity(pod: string): PodIdentity {
  const [, namespace = "", name = "", uid] = /^(.*?)\/(.*?)(?:@(.*))?$/.exec(pod) ?? [];
  return { namespace, name, uid };
}
