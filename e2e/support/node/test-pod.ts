import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { execa, type Result } from "execa";
import { waitUntil } from "../wait.ts";
import type { CallOutcome, CniCall } from "./cni-call.ts";
import type { NetnsLab } from "./netns-lab.ts";

/** What a pod needs of the node that it runs on. */
interface PodNode {
  readonly lab: NetnsLab;
  readonly stateDir: string;
  manifest(name: string, ...objects: object[]): Promise<void>;
  conf(extra: object): object;
  call(call: CniCall): Promise<CallOutcome>;
  networkStatus(pod: string): Promise<Record<string, unknown>[] | undefined>;
}

/** How a test's pod is made. */
export interface PodOptions {
  readonly namespace?: string;
  readonly uid?: string;
  /** Value of the networks annotation: a string as it stands, a list as JSON. */
  readonly networks?: string | readonly object[];
  readonly annotations?: Readonly<Record<string, string>>;
}

/** An interface of a result. */
interface ResultInterface {
  readonly name: string;
  readonly mac?: string;
  readonly sandbox?: string;
}

/** What tests read of an ADD's result. */
export interface AddResult {
  readonly cniVersion: string;
  readonly interfaces: readonly ResultInterface[];
  readonly ips: readonly { address: string; gateway?: string; interface?: number }[];
  readonly routes?: readonly { dst: string; gw?: string }[];
  readonly dns?: object;
}

/** A link as `ip -j addr` shows it. */
export interface PodLink {
  readonly ifname: string;
  readonly address: string;
  readonly mtu: number;
  readonly addr_info: readonly {
    family: string;
    local: string;
    prefixlen: number;
    scope: string;
  }[];
}

interface Hop {
  readonly gateway?: string;
  readonly dev: string;
}

/** What may differ from the usual call. */
export type CallChanges = Partial<CniCall> & { readonly runtimeConfig?: object };

/** A pod with a manifest and a network namespace, and the calls that a runtime makes for it. */
export class TestPod {
  readonly name: string;
  readonly namespace: string;
  readonly containerId: string;
  readonly netns: string;
  readonly #node: PodNode;
  readonly #uid: string | undefined;

  private constructor(node: PodNode, name: string, options: PodOptions) {
    this.#node = node;
    this.name = name;
    this.namespace = options.namespace ?? "default";
    this.containerId = `c-${name}`;
    this.netns = `ns-${name}`;
    this.#uid = options.uid;
  }

  static async create(node: PodNode, name: string, options: PodOptions): Promise<TestPod> {
    const pod = new TestPod(node, name, options);
    await pod.annotate(options);
    await node.lab.addNetns(pod.netns);
    return pod;
  }

  /** Writes the pod's manifest anew. */
  async annotate(options: PodOptions): Promise<void> {
    const { networks, annotations } = options;
    const value = typeof networks === "string" ? networks : JSON.stringify(networks);
    const metadata = {
      name: this.name,
      namespace: this.namespace,
      ...(this.#uid === undefined ? {} : { uid: this.#uid }),
      annotations: {
        ...(networks === undefined ? {} : { "k8s.v1.cni.cncf.io/networks": value }),
        ...annotations,
      },
    };
    await this.#node.manifest(`pod-${this.namespace}-${this.name}`, {
      apiVersion: "v1",
      kind: "Pod",
      metadata,
    });
  }

  /** The runtime's call for this pod. */
  request(command: CniCall["command"], changes: CallChanges = {}): CniCall {
    const { runtimeConfig, ...rest } = changes;
    const conf = this.#node.conf(runtimeConfig === undefined ? {} : { runtimeConfig });
    const pod = `${this.namespace}/${this.name}${this.#uid === undefined ? "" : `@${this.#uid}`}`;
    return { command, containerId: this.containerId, netns: this.netns, pod, conf, ...rest };
  }

  add(changes?: CallChanges): Promise<CallOutcome> {
    return this.#node.call(this.request("ADD", changes));
  }

  check(changes?: CallChanges): Promise<CallOutcome> {
    return this.#node.call(this.request("CHECK", changes));
  }

  del(changes?: CallChanges): Promise<CallOutcome> {
    return this.#node.call(this.request("DEL", changes));
  }

  /** ADD that must succeed. @throws Error with what the shim printed */
  async mustAdd(changes?: CallChanges): Promise<AddResult> {
    return must(await this.add(changes), "ADD").json as AddResult;
  }

  /** CHECK that must succeed. */
  async mustCheck(changes?: CallChanges): Promise<void> {
    must(await this.check(changes), "CHECK");
  }

  /** DEL that must succeed. */
  async mustDel(changes?: CallChanges): Promise<void> {
    must(await this.del(changes), "DEL");
  }

  /** Path of the attachment record of `eth0`, which has the teardown plan, too. */
  get recordPath(): string {
    return join(this.#node.stateDir, `${this.containerId}@eth0.record`);
  }

  /** Whether `eth0` has its record. */
  get isRecorded(): boolean {
    return existsSync(this.recordPath);
  }

  /** Whether a call holds the lock of this pod's sandbox, or waits for it. */
  isLocked(): boolean {
    return existsSync(join(this.#node.stateDir, `${this.containerId}.lock`));
  }

  /** Runs a command in the pod's network namespace; a failure throws. */
  run(...command: string[]): Promise<string> {
    return this.#node.lab.run("ip", "netns", "exec", this.netns, ...command);
  }

  /** Runs a command in the pod's network namespace. */
  try(...command: string[]): Promise<Result> {
    return this.#node.lab.try(["ip", "netns", "exec", this.netns, ...command]);
  }

  /** Makes an interface in the pod; scripted plugins make none. */
  async addLink(name: string): Promise<void> {
    await this.run("ip", "link", "add", name, "type", "veth", "peer", "name", `${name}peer`);
  }

  /** Starts a program in the pod's network namespace; returns once it has printed something. It ends with the scope. */
  async startProgram(...command: string[]): Promise<AsyncDisposable> {
    const [file, ...args] = this.#node.lab.command("ip", "netns", "exec", this.netns, ...command);
    const program = execa(file, args, { reject: false, buffer: false });
    await once(program.stdout, "data");
    return {
      async [Symbol.asyncDispose]() {
        program.kill("SIGKILL");
        await program;
      },
    };
  }

  /** The pod's interfaces but the loopback, by name. */
  async links(): Promise<Record<string, PodLink>> {
    const all = JSON.parse(await this.run("ip", "-j", "address")) as PodLink[];
    return Object.fromEntries(all.filter((l) => l.ifname !== "lo").map((l) => [l.ifname, l]));
  }

  /** Global addresses of an interface, with their prefix lengths. */
  async addresses(ifName: string): Promise<string[]> {
    const info = (await this.links())[ifName]?.addr_info ?? [];
    return info.filter((a) => a.scope === "global").map((a) => `${a.local}/${a.prefixlen}`);
  }

  /** Default routes in the kernel, most preferred first: `via GATEWAY dev DEV`, one per next hop. */
  async defaultRoutes(family: 4 | 6): Promise<string[]> {
    const json = await this.run("ip", `-${family}`, "-j", "route", "show", "default");
    const routes = JSON.parse(json) as (Hop & { metric?: number; nexthops?: Hop[] })[];
    const sorted = routes.toSorted((a, b) => (a.metric ?? 0) - (b.metric ?? 0));
    return sorted
      .flatMap((route) => route.nexthops ?? [route])
      .map(({ gateway, dev }) => `${gateway === undefined ? "" : `via ${gateway} `}dev ${dev}`);
  }

  /** Pings an address, by an interface where one is given. @throws Error when no answer comes */
  async ping(address: string, ifName?: string): Promise<void> {
    const source = ifName === undefined ? [] : ["-I", ifName];
    await this.run("ping", "-n", "-c", "1", "-w", "20", ...source, address);
  }

  /** The network-status, which is published after the ADD. @throws Error when it is not published */
  status(): Promise<Record<string, unknown>[]> {
    return waitUntil("the network-status is published", () => this.currentStatus());
  }

  /** The present network-status. */
  currentStatus(): Promise<Record<string, unknown>[] | undefined> {
    return this.#node.networkStatus(`${this.namespace}/${this.name}`);
  }
}

function must(outcome: CallOutcome, command: string): CallOutcome {
  if (outcome.exitCode === 0) return outcome;
  throw new Error(`${command} exited with ${outcome.exitCode}: ${outcome.stdout}${outcome.stderr}`);
}
