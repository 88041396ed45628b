import { namedPlugins } from "#engine/config.ts";
import { SharedLock } from "#lib/concurrency/shared-lock.ts";
import type { JsonObject } from "#lib/json.ts";
import { isLive } from "../recorded.ts";
import { Process } from "../world/schedule.ts";
import { world } from "../world/world.ts";
import { listFiles } from "./mesh-agent.ts";
import { noteMesh } from "./plugin/chained-plugins.ts";
import { hasPlugin, meshTypes } from "./plugins.ts";
import { startShim } from "./shim.ts";

/** A pod of the cluster. */
export interface SimulatedPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly annotations: Record<string, string>;
  /** How many devices it runs with, whatever its annotation says later. @default 0 */
  readonly deviceCount?: number;
}

/** A pod's sandbox as the container runtime keeps it, on disk. */
export interface Sandbox {
  readonly id: string;
  readonly pod: SimulatedPod;
  readonly netns: string;
  /** The result of its ADD, which libcni keeps for later calls. */
  result: JsonObject | undefined;
  state: "starting" | "ready" | "stopped";
}

/** How a call of the runtime ended. */
export interface CallEnd {
  readonly command: string;
  readonly sandbox: Sandbox | undefined;
  /** Whether the runtime takes it for a success. */
  readonly isSuccess: boolean;
  /** Whether the runtime killed it, because it took too long. */
  readonly isTimedOut: boolean;
  readonly startedUs: number;
}

/** What calls the runtime: which pod it names, and where its namespaces are. */
type RuntimeClient = "kubelet" | "cnitool" | "nerdctl";

interface RuntimeOptions {
  readonly kind: "containerd" | "CRI-O";
  readonly client: RuntimeClient;
  readonly conf: JsonObject;
  /** Whether it reads the directory of configurations, where others may append plugins. */
  readonly readsConf: boolean;
  /** Whether it gives pods' annotations to plugins that ask for them. */
  readonly passesAnnotations: boolean;
  readonly onCall: {
    started(command: string, sandbox: Sandbox | undefined): void;
    ended(end: CallEnd): void;
  };
}

/**
 * After these the runtime kills a call, in microseconds: the kubelet waits four minutes for a new
 * sandbox and two for other requests, and CRI-O one for a DEL.
 */
const limits = { run: 240e6, request: 120e6, cleanup: 60e6, gc: 30e6 };

/**
 * A container runtime: which CNI calls it makes, and what it forgets (reference: containerd's CRI
 * plugin with go-cni, CRI-O 1.35 with ocicni). Its sandboxes survive its restarts and the machine's.
 */
export class Runtime {
  readonly #options: RuntimeOptions;
  readonly sandboxes = new Map<string, Sandbox>();
  /**
   * IDs of those whose ADD began with a list to which an agent had appended its plugin, before
   * plexusd left it out of the default network.
   */
  readonly addedEarly = new Set<string>();
  process = new Process("runtime");
  #count = 0;
  #conf: JsonObject;
  /** By ID: the pod of each sandbox that was ever started. */
  readonly podOf = new Map<string, SimulatedPod>();
  #appended: string[] = [];
  /** A GC excludes everything else, as CNI demands of runtimes. */
  #lock = new SharedLock();

  constructor(options: RuntimeOptions) {
    this.#options = options;
    this.#conf = options.conf;
  }

  /** Uses another configuration from now on. */
  configure(conf: JsonObject): void {
    this.#conf = conf;
  }

  /** Starts again after its process ended. CRI-O then checks its pods and collects garbage. */
  restart(): void {
    this.process = new Process("runtime");
    this.#lock = new SharedLock();
    world().note(() => "the runtime starts");
    world().schedule.at(100_000, () => void this.#begin(), this.process);
  }

  /** RunPodSandbox. @throws Error when the pod has no network */
  async run(pod: SimulatedPod): Promise<void> {
    using _lock = await this.#shared();
    this.#count += 1;
    const { client } = this.#options;
    // Others start the same container again.
    const id = client === "kubelet" ? `c${this.#count}` : `${client}-${pod.name}`;
    const netns = newNetns(this.#options, id);
    const sandbox: Sandbox = { id, pod, netns, result: undefined, state: "starting" };
    this.podOf.set(id, pod);
    world().kernel.addNamespace(netns, id);
    // CRI-O stores a sandbox first; containerd one that is complete, or whose cleanup failed.
    if (this.#options.kind === "CRI-O") this.sandboxes.set(id, sandbox);
    if (!this.#readConf()) throw new Error("the first configuration is not Plexus's");
    const appended = this.#appended;
    const omitted = namedPlugins(this.#conf.omittedPlugins).map(({ type }) => type);
    if (appended.some((type) => !omitted.includes(type))) this.addedEarly.add(id);
    const added =
      (await this.#call("ADD", sandbox, limits.run)) &&
      !world().isNextFailing &&
      appended.every((type) => runAppended(type, sandbox));
    const isChecked = added && this.#options.kind === "CRI-O";
    if (added && (!isChecked || (await this.#call("CHECK", sandbox, limits.request)))) {
      sandbox.state = "ready";
      this.sandboxes.set(id, sandbox);
      return;
    }
    this.#endProcess(sandbox);
    // containerd keeps only the result of a sandbox that is ready.
    if (world().isNextFailing) sandbox.result = undefined;
    const isClean = await this.#call("DEL", sandbox, limits.cleanup);
    sandbox.state = "stopped";
    if (isClean || this.#mayForget(sandbox)) this.#forget(sandbox);
    else this.sandboxes.set(id, sandbox);
    throw new Error("the sandbox has no network");
  }

  /** StopPodSandbox and, if it succeeds, RemovePodSandbox. @throws Error when DEL fails */
  async stop(sandbox: Sandbox): Promise<void> {
    using _lock = await this.#shared();
    if (!this.sandboxes.has(sandbox.id)) return;
    // Its containers are stopped first.
    if (sandbox.state !== "stopped") this.#endProcess(sandbox);
    sandbox.state = "stopped";
    const limit = this.#options.kind === "CRI-O" ? limits.cleanup : limits.request;
    const isDetached = await this.#call("DEL", sandbox, limit);
    // containerd logs a failure if there never was a result.
    const isUnused = this.#options.kind === "containerd" && sandbox.result === undefined;
    if (!isDetached && !isUnused && !this.#mayForget(sandbox)) throw new Error("DEL failed");
    this.#forget(sandbox);
    // Some callers stop a sandbox again.
    if (world().random.chance(0.1)) await this.#call("DEL", sandbox, limit);
  }

  /** Reads the first configuration, if there is one. @returns whether it is Plexus's */
  #readConf(): boolean {
    const [first] = this.#options.readsConf ? listFiles() : [];
    if (first === undefined) return true;
    const [own, ...others] = first.list.plugins;
    if (own?.type !== "plexus") return false;
    const { cniVersion = "", name = "" } = first.list;
    this.#conf = { ...own, cniVersion, name };
    this.#appended = others.map(({ type }) => String(type));
    return true;
  }

  async status(): Promise<void> {
    await this.#call("STATUS", undefined, limits.request);
  }

  /** Checks the sandboxes that run. @returns whether all are as their ADD left them */
  async check(): Promise<boolean> {
    using _lock = await this.#shared();
    const { kernel } = world();
    let isOk = true;
    for (const sandbox of this.sandboxes.values()) {
      const isAlive = isReady(sandbox) && kernel.hasNamespaceOf(sandbox);
      if (!isAlive || lacksMesh(sandbox) || (await this.#call("CHECK", sandbox, limits.request)))
        continue;
      // The kubelet may have stopped it meanwhile.
      if (isReady(sandbox)) isOk = false;
    }
    return isOk;
  }

  /** Makes a call that leftovers can be detached with: STATUS, or DEL of an unknown sandbox. */
  async nudge(): Promise<void> {
    if (this.#conf.cniVersion === "1.1.0") return this.status();
    const pod = { namespace: "default", name: "unknown", uid: "unknown", annotations: {} };
    const id = "unknown";
    const sandbox: Sandbox = { id, pod, netns: "", result: undefined, state: "stopped" };
    await this.#call("DEL", sandbox, limits.request);
  }

  async collectGarbage(): Promise<void> {
    using _lock = await this.#lock.exclusive();
    await this.#call("GC", undefined, limits.gc);
  }

  /** @throws Error when the runtime is killed while the call waits */
  async #shared(): Promise<Disposable> {
    const lock = this.#lock;
    const held = await lock.shared();
    if (lock === this.#lock) return held;
    held[Symbol.dispose]();
    throw new Error("the runtime was killed");
  }

  /**
   * Whether one DEL is enough, whatever comes of it: CRI-O and nerdctl send no other. But
   * people remove a container again if its DEL was killed before it began, as nothing else says
   * that it is gone.
   */
  #mayForget({ id }: Sandbox): boolean {
    const { kind, client } = this.#options;
    return kind === "CRI-O" && (client === "kubelet" || !isLive(id));
  }

  #forget({ id, netns }: Sandbox): void {
    this.sandboxes.delete(id);
    if (this.#options.client !== "nerdctl") world().kernel.removeNamespace(netns);
  }

  /** A namespace without a mount ends with its process, whose number may be used again at once. */
  #endProcess(sandbox: Sandbox): void {
    const { kernel } = world();
    const isOwn = this.#options.client === "nerdctl" && kernel.hasNamespaceOf(sandbox);
    if (isOwn) kernel.removeNamespace(sandbox.netns);
  }

  async #begin(): Promise<void> {
    if (this.#options.kind === "containerd") return;
    await this.check();
    await this.status();
    await this.collectGarbage();
  }

  /** @returns whether it succeeded */
  async #call(command: string, sandbox: Sandbox | undefined, limitUs: number): Promise<boolean> {
    const { schedule, note } = world();
    const startedUs = schedule.nowUs;
    const { onCall } = this.#options;
    // The plugin behind Plexus's gets a DEL first, which ends the call.
    if (command === "DEL" && world().isNextFailing) return false;
    onCall.started(command, sandbox);
    this.#readConf();
    note(() => `runtime: ${command} ${sandbox?.id ?? ""}`);
    const shim = startShim({
      env: this.#environment(command, sandbox),
      stdin: JSON.stringify({ ...this.#conf, ...this.#extraConf(command, sandbox) }),
    });
    let isTimedOut = false;
    const limit = schedule.at(limitUs, () => {
      isTimedOut = true;
      schedule.kill(shim.process);
    });
    const exit = await shim.ended;
    schedule.cancel(limit);
    const isOk =
      exit !== undefined && (exit.status === 0 || this.#ignores(exit.stdout, { command, sandbox }));
    note(
      () =>
        `runtime: ${command} ${sandbox?.id ?? ""} ${exit ? exit.status : "killed"} ${isOk ? "" : (exit?.stdout ?? "")}`,
    );
    onCall.ended({ command, sandbox, isSuccess: isOk, isTimedOut, startedUs });
    if (command === "ADD" && sandbox !== undefined && isOk)
      sandbox.result = JSON.parse(exit.stdout) as JsonObject;
    return isOk;
  }

  /** containerd takes a DEL for a success if its error says that something is absent (go-cni). */
  #ignores(error: string, { command, sandbox }: Pick<CallEnd, "command" | "sandbox">): boolean {
    if (command !== "DEL" || this.#options.kind !== "containerd") return false;
    const isGone = sandbox !== undefined && !world().kernel.hasNamespace(sandbox.netns);
    return error.includes("not found") || (isGone && error.includes("no such file or directory"));
  }

  #environment(command: string, sandbox: Sandbox | undefined): Record<string, string> {
    const common = { CNI_COMMAND: command, CNI_PATH: "/opt/cni/bin" };
    if (sandbox === undefined) return common;
    const { id, pod, netns } = sandbox;
    const isThere = world().kernel.hasNamespace(netns);
    const { client } = this.#options;
    const ofPod = [
      ...[`K8S_POD_NAMESPACE=${pod.namespace}`, `K8S_POD_NAME=${pod.name}`],
      ...[`K8S_POD_INFRA_CONTAINER_ID=${id}`, `K8S_POD_UID=${pod.uid}`],
    ];
    return {
      ...common,
      CNI_CONTAINERID: id,
      CNI_IFNAME: "eth0",
      CNI_NETNS: isThere ? netns : "",
      CNI_ARGS: ["IgnoreUnknown=1", ...(client === "kubelet" ? ofPod : [])].join(";"),
    };
  }

  #extraConf(command: string, sandbox: Sandbox | undefined): JsonObject {
    if (command === "GC") {
      const ids = [...this.sandboxes.keys()];
      return {
        "cni.dev/valid-attachments": ids.map((containerID) => ({ containerID, ifname: "eth0" })),
      };
    }
    const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }];
    const annotations = this.#options.passesAnnotations ? sandbox?.pod.annotations : undefined;
    const runtimeConfig = {
      portMappings,
      ...(annotations && { "io.kubernetes.cri.pod-annotations": annotations }),
    };
    if (command === "ADD" || command === "STATUS") return { runtimeConfig };
    return { runtimeConfig, ...(sandbox?.result && { prevResult: sandbox.result }) };
  }
}

/** The runtime executes what follows Plexus's plugin. @returns whether it succeeds */
function runAppended(type: string, { id }: Sandbox): boolean {
  const isThere = hasPlugin(type);
  world().note(() => `runtime: ${type} ADD ${id} ${isThere ? 0 : "is missing"}`);
  if (isThere) noteMesh(id, "runtime");
  return isThere;
}

/** Whether its default network has the plugin of an agent that has removed it. */
function lacksMesh({ id }: Sandbox): boolean {
  return world().meshAdds.get(id)?.includes("Plexus") === true && !meshTypes.some(hasPlugin);
}

function isReady({ state }: Sandbox): boolean {
  return state === "ready";
}

/** Of a pod's namespace, which containerd and CRI-O make once. */
export function podNetns(kind: RuntimeOptions["kind"], id: string): string {
  const uuid = `0b6bb8b5-4d5a-4c5e-9a64-${id.slice(1).padStart(12, "0")}`;
  return `/var/run/netns/${kind === "CRI-O" ? "" : "cni-"}${uuid}`;
}

/**
 * The path of a new namespace. nerdctl's is of a process; cnitool's user names containers alike, but
 * not in another boot.
 */
function newNetns({ client, kind }: RuntimeOptions, id: string): string {
  const boot = world().kernel.bootId.slice(0, 8);
  if (client === "nerdctl") return firstFree((number) => `/proc/${4000 + number}/ns/net`);
  if (client === "cnitool") return firstFree((number) => `/run/netns/cnitool-${boot}-${number}`);
  return podNetns(kind, id);
}

/** The path with the lowest number that no namespace has. */
function firstFree(path: (number: number) => string): string {
  let number = 0;
  while (world().kernel.hasNamespace(path(number))) number += 1;
  return path(number);
}
