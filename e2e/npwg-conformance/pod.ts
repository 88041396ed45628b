import { randomBytes } from "node:crypto";
import type { Cluster } from "./cluster/cluster.ts";
import { nodeName } from "./cluster/cluster.ts";
import { expectThat, Mismatch, NoStatus, show } from "./expect.ts";
import { asObject, isObject, type JsonObject, parseJson } from "./json.ts";
import { type CniRuntime, errorOf, type Reply, type Sandbox } from "./runtime/cni-runtime.ts";
import { run } from "./runtime/command.ts";
import type { Answer, Delegates, Invocation } from "./runtime/delegates.ts";
import { waitUntil } from "./runtime/wait.ts";

/** What a pod asks for. */
export interface PodOptions {
  /** Value of the networks annotation: a text, or a list that becomes JSON. */
  readonly networks?: string | readonly unknown[];
  readonly annotations?: Readonly<Record<string, string>>;
}

/** What a pod is made with. */
export interface PodContext {
  readonly cluster: Cluster;
  readonly delegates: Delegates;
  readonly runtime: CniRuntime;
  /** Called before an ADD: gives watches of a daemon the time to deliver. */
  readonly settle: () => Promise<void>;
}

const statusAnnotation = "k8s.v1.cni.cncf.io/network-status";
/** How long an implementation may take to publish a status after ADD. */
const statusMs = 3000;

/** A pod of the API server with a network namespace, but without containers. */
export class Pod implements AsyncDisposable {
  readonly sandbox: Sandbox;
  readonly #context: PodContext;
  readonly #object: JsonObject;
  readonly #netnsName: string;
  #mayBeAttached = false;
  #result: JsonObject | undefined;

  private constructor(context: PodContext, object: JsonObject, names: [string, Sandbox["pod"]]) {
    const [netnsName, pod] = names;
    this.#context = context;
    this.#object = object;
    this.#netnsName = netnsName;
    const containerId = randomBytes(32).toString("hex");
    this.sandbox = { containerId, netns: `/run/netns/${netnsName}`, pod };
  }

  /** Creates the pod, and a network namespace with `ip netns`. */
  static async create(context: PodContext, namespace: string, options: PodOptions): Promise<Pod> {
    const { networks } = options;
    const name = `npwg-${randomBytes(4).toString("hex")}`;
    const text = typeof networks === "string" ? networks : JSON.stringify(networks);
    const selected = networks === undefined ? {} : { "k8s.v1.cni.cncf.io/networks": text };
    const annotations = { ...selected, ...options.annotations };
    const object = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace, name, annotations },
      spec: { nodeName, containers: [{ name: "none", image: "registry.invalid/none" }] },
    };
    const { metadata } = await context.cluster.apply(object);
    const uid = String(asObject(metadata).uid);
    await run(["ip", "netns", "add", name]);
    return new Pod(context, object, [name, { namespace, name, uid }]);
  }

  /** From now on, the delegate does this on the call, `TYPE.COMMAND`. */
  async answer(call: string, answer: Answer): Promise<void> {
    await this.#context.delegates.answer(this.sandbox.containerId, call, answer);
  }

  /** From now on, this configuration's reference plugin does the work of the scripted delegate. */
  async useReal(type: string, plugin: JsonObject): Promise<void> {
    // Plugins would wait seconds for duplicate address detection.
    await this.exec("sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad");
    for (const command of ["ADD", "DEL", "CHECK"])
      await this.answer(`${type}.${command}`, { plugin });
  }

  async add(configuration?: JsonObject): Promise<Reply> {
    await this.#context.settle();
    this.#mayBeAttached = true;
    const { sandbox } = this;
    return await this.#context.runtime.call({ command: "ADD", sandbox, configuration });
  }

  /** @returns the result of ADD @throws Mismatch if it fails */
  async mustAdd(configuration?: JsonObject): Promise<JsonObject> {
    const reply = await this.add(configuration);
    expectSuccess("ADD", reply);
    this.#result = reply.result;
    return reply.result;
  }

  /** @throws Mismatch if ADD succeeds */
  async mustFailToAdd(because: string, configuration?: JsonObject): Promise<void> {
    const reply = await this.add(configuration);
    if (reply.exitCode !== 0) return;
    throw new Mismatch(`expected that ADD fails because ${because}, but it succeeded`);
  }

  /** DEL with the result of ADD as `prevResult`, as libcni passes it. */
  async del(sandbox: Partial<Sandbox> = {}): Promise<Reply> {
    return await this.#callAgain("DEL", sandbox);
  }

  /** @throws Mismatch if DEL fails */
  async mustDel(sandbox: Partial<Sandbox> = {}): Promise<void> {
    expectSuccess("DEL", await this.del(sandbox));
    this.#mayBeAttached = false;
  }

  /** @throws Mismatch if CHECK fails */
  async mustCheck(): Promise<void> {
    expectSuccess("CHECK", await this.#callAgain("CHECK", {}));
  }

  /** The executions of scripted delegates for this pod, in their order. */
  async invocations(command = "ADD"): Promise<Invocation[]> {
    const all = await this.#context.delegates.invocations(this.sandbox.containerId);
    return all.filter((each) => each.command === command);
  }

  /** `TYPE/INTERFACE` of each execution. */
  async order(command = "ADD"): Promise<string[]> {
    return (await this.invocations(command)).map(({ type, ifName }) => `${type}/${ifName}`);
  }

  /** The only execution of a delegate. @throws Mismatch if there is not exactly one */
  async invocation(type: string, command = "ADD"): Promise<Invocation> {
    const found = (await this.invocations(command)).filter((each) => each.type === type);
    const [only] = found;
    if (only !== undefined && found.length === 1) return only;
    const order = (await this.order(command)).join(", ") || "none";
    throw new Mismatch(
      `expected one ${command} of ${type}, got ${found.length} (executions of ${command}: ${order})`,
    );
  }

  /** The elements of the network-status annotation. @throws Mismatch if there is none, or no list of maps */
  async status(): Promise<JsonObject[]> {
    const { namespace, name } = this.sandbox.pod;
    let text: unknown;
    const read = async (): Promise<boolean> => {
      const pod = await this.#context.cluster.getPod(namespace, name);
      const { annotations } = asObject(pod?.metadata);
      text = asObject(annotations)[statusAnnotation];
      return typeof text === "string";
    };
    await waitUntil("network-status", read, statusMs).catch(() => undefined);
    if (typeof text !== "string")
      throw new NoStatus(`the pod has no annotation ${statusAnnotation}`);
    const list = parseJson(text);
    expectThat(Array.isArray(list) && list.every(isObject), "a JSON list of maps as status", text);
    return list as JsonObject[];
  }

  /** The first status element of a network, by the end of its name. @throws Mismatch if there is none */
  async statusOf(network: string): Promise<JsonObject> {
    const list = await this.status();
    const found = list.find(({ name }) => String(name).split("/").pop() === network);
    expectThat(found !== undefined, `a status element for ${network}`, list);
    return found;
  }

  /** Runs a command in the pod's network namespace. */
  async exec(...command: string[]): Promise<string> {
    return await run(["ip", "netns", "exec", this.#netnsName, ...command]);
  }

  /** Deletes the pod from the API server. */
  async deleteObject(): Promise<void> {
    await this.#context.cluster.delete(this.#object);
  }

  /** Detaches the pod and removes everything of it. */
  async [Symbol.asyncDispose](): Promise<void> {
    const { containerId } = this.sandbox;
    if (this.#mayBeAttached) {
      for (const { type } of await this.invocations())
        await this.answer(`${type}.DEL`, { stdout: "", exit: 0, sleep: 0 });
      await this.del();
    }
    await run(["ip", "netns", "del", this.#netnsName]);
    await this.deleteObject();
    await this.#context.delegates.forget(containerId);
  }

  async #callAgain(command: "DEL" | "CHECK", sandbox: Partial<Sandbox>): Promise<Reply> {
    const configuration = this.#result === undefined ? {} : { prevResult: this.#result };
    const call = { command, sandbox: { ...this.sandbox, ...sandbox }, configuration };
    return await this.#context.runtime.call(call);
  }
}

function expectSuccess(command: string, reply: Reply): void {
  if (reply.exitCode === 0) return;
  throw new Mismatch(`expected that ${command} succeeds, got ${show(errorOf(reply))}`);
}
