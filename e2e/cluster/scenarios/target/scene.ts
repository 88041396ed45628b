import { expect } from "vitest";
import {
  differences,
  type HostState,
  type HostStateKind,
  linesAdded,
} from "../../../support/host-state.ts";
import { nad } from "../../../support/node/manifests.ts";
import { waitForServiceAccount } from "../../kubernetes/cluster.ts";
import { podImage } from "./images.ts";
import { nodeState } from "./node-state.ts";
import {
  both,
  elsewhere,
  home,
  namespaceObject,
  networkStatus,
  networks,
  networksKey,
  type PodObject,
  type StatusEntry,
} from "./objects.ts";
import { eventually, type Target } from "./target.ts";

/** What a test pod asks for. */
export interface PodOptions {
  /** The networks annotation; an object is given as JSON. */
  readonly networks?: string | readonly object[];
  /** Goes over the usual specification. */
  readonly spec?: object;
  /** Goes over the usual container. */
  readonly container?: object;
}

/** An event of the API, by what is looked at. */
export interface EventObject {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
}

/** Longer than anything on a node takes that is merely busy. */
const deadline = "--timeout=240s";

/** The cluster with Plexus installed and the scenarios' networks, and what is done on it. */
export class Scene {
  readonly target: Target;
  /** What was on the node before the first pod of the tests. */
  #before: HostState = {};

  constructor(target: Target) {
    this.target = target;
  }

  /** Makes namespaces and networks, and remembers what is on the node. */
  async prepare(): Promise<void> {
    const objects = [
      namespaceObject(home),
      namespaceObject(elsewhere),
      ...Object.entries(networks)
        .filter(([name]) => name !== "late" && name !== "green")
        .map(([name, config]) => nad(name, config, { namespace: home })),
      nad("green", networks.green, { namespace: elsewhere }),
    ];
    await this.target.apply({ apiVersion: "v1", kind: "List", items: objects });
    await waitForServiceAccount(this.target, home);
    await waitForServiceAccount(this.target, elsewhere);
    await this.remember();
  }

  /**
   * Remembers what is on the node: the state to return to when all pods of the tests are gone. A call that runs at that
   * moment, such as a repeated DEL, holds a lock that ends with it.
   */
  async remember(): Promise<void> {
    this.#before = await eventually("no call runs on the node", async () => {
      const state = await nodeState(this.target);
      return state.locks?.length === 0 && state;
    });
  }

  /** What of one kind has come to the node since. */
  async added(kind: HostStateKind): Promise<string[]> {
    return linesAdded(this.#before, await nodeState(this.target), kind);
  }

  /** Waits until the node has what it had before the first pod of the tests. @throws Error that names the rest */
  async waitForNothingLeft(): Promise<void> {
    await eventually("the node has what it had before", async () => {
      const left = differences(this.#before, await nodeState(this.target));
      if (left.length > 0) throw new Error(`\n${left.join("\n")}`);
      return true;
    });
  }

  /** Deletes the scenarios' pods and waits until nothing of them is left on the node. */
  async clear(): Promise<void> {
    for (const namespace of [home, elsewhere]) {
      const all = ["deployments,pods", "--all", "--ignore-not-found"];
      await this.target.kubectl("delete", `--namespace=${namespace}`, ...all, deadline);
    }
    await this.waitForNothingLeft();
  }

  /** Removes what prepare() has made. */
  async remove(): Promise<void> {
    const names = [home, elsewhere];
    await this.target.kubectl("delete", "namespace", "--ignore-not-found", ...names, deadline);
  }

  /** Creates a pod; it need not come up. */
  async createPod(name: string, options: PodOptions = {}): Promise<void> {
    const { metadata, spec } = this.podTemplate(options);
    await this.target.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { ...metadata, name, namespace: home },
      spec,
    });
  }

  /** Creates a pod and waits until it is ready. */
  async startPod(name: string, options: PodOptions = {}): Promise<PodObject> {
    await this.createPod(name, options);
    return this.waitForPod(name);
  }

  /** Starts a pod on the networks `red` and `blue`, and expects its network-status to have them. */
  async startAttached(name: string): Promise<void> {
    await this.startPod(name, both);
    expect(await this.networkStatus(name), name).toHaveLength(3);
  }

  async waitForPod(name: string): Promise<PodObject> {
    await this.kubectl("wait", "--for=condition=Ready", `pod/${name}`, deadline);
    return this.pod(name);
  }

  /** Deletes pods and waits until they are gone from the API. */
  async deletePods(...names: string[]): Promise<void> {
    await this.kubectl("delete", "pod", ...names, deadline);
  }

  /** The network-status of a pod that Plexus attached: it is published after the container runtime has its answer. */
  async networkStatus(name: string): Promise<StatusEntry[]> {
    return eventually(`pod ${name} has a network-status`, async () => {
      const status = networkStatus(await this.pod(name));
      return status.length > 0 && status;
    });
  }

  async pod(name: string): Promise<PodObject> {
    return this.get<PodObject>("pod", name);
  }

  /** Runs a command in a pod. */
  async exec(name: string, ...command: string[]): Promise<string> {
    return this.kubectl("exec", name, "--", ...command);
  }

  /** The interfaces of a pod with their IPv4 addresses: `{ lo: "127.0.0.1/8", eth0: "10.244.0.7/24" }`. */
  async interfaces(name: string): Promise<Record<string, string>> {
    const output = await this.exec(name, "ip", "-oneline", "-4", "address");
    const found = [...output.matchAll(/^\d+: (\S+) +inet (\S+)/gm)];
    return Object.fromEntries(found.map(([, link, address]) => [link, address]));
  }

  /** The events about an object of the scenarios' namespace. */
  async events(name: string): Promise<EventObject[]> {
    const about = `--field-selector=involvedObject.name=${name}`;
    const { items } = await this.get<{ items: EventObject[] }>("events", about);
    return items;
  }

  /** Waits until there is an event of this reason about an object, with these words in its message. */
  async waitForEvent(name: string, reason: string, words = ""): Promise<EventObject> {
    const find = async (): Promise<EventObject | undefined> =>
      (await this.events(name)).find(
        (event) => event.reason === reason && event.message.includes(words),
      );
    return eventually(`event ${reason} about ${name} ${words}`, find);
  }

  async kubectl(...args: string[]): Promise<string> {
    return this.target.kubectl(`--namespace=${home}`, ...args);
  }

  async get<T>(...args: string[]): Promise<T> {
    return this.target.get<T>(`--namespace=${home}`, ...args);
  }

  /** The part of a pod that a Deployment has too. */
  podTemplate({ networks: wanted, spec, container }: PodOptions): {
    metadata: object;
    spec: object;
  } {
    const value = typeof wanted === "object" ? JSON.stringify(wanted) : wanted;
    return {
      metadata: value === undefined ? {} : { annotations: { [networksKey]: value } },
      spec: {
        nodeSelector: { "kubernetes.io/hostname": this.target.nodeName },
        terminationGracePeriodSeconds: 1,
        automountServiceAccountToken: false,
        containers: [{ name: "main", image: podImage, command: ["sleep", "86400"], ...container }],
        ...spec,
      },
    };
  }
}
