import { randomUUID } from "node:crypto";
import { networksAnnotation } from "../../src/npwg/selection/selection.ts";
import type { Host } from "../cluster/machine/host.ts";

/** What a pod needs of the node that it runs on. */
interface PodNode {
  /** The control group to keep pods in. */
  readonly cgroup: string;
  readonly host: Pick<Host, "run">;
  /** Writes a manifest for plexusd. */
  manifest(name: string, ...objects: object[]): Promise<void>;
  /** Calls a method of CRI-O's RuntimeService. */
  call<T = unknown>(method: string, request?: object): Promise<T>;
}

/** What may be said of a pod. */
interface CrioPodOptions {
  /** Value of the annotation. @default none */
  readonly networks?: string | undefined;
  /** Of a pod that is to get another sandbox. @default a new pod's */
  readonly uid?: string;
}

/** NamespaceMode CONTAINER: with POD, CRI-O needs an extra process for each pod's PID namespace. */
const ownPidNamespace = 1;

/** A pod's sandbox that CRI-O has started. */
export class CrioPod {
  readonly name: string;
  readonly id: string;
  readonly #node: PodNode;

  private constructor(node: PodNode, name: string, id: string) {
    this.#node = node;
    this.name = name;
    this.id = id;
  }

  /** Writes the pod's manifest for plexusd, and starts its sandbox. @throws Error when CRI-O refuses */
  static async run(
    node: PodNode,
    name: string,
    { networks, uid = randomUUID() }: CrioPodOptions = {},
  ): Promise<CrioPod> {
    const annotations = networks === undefined ? {} : { [networksAnnotation]: networks };
    const metadata = { name, namespace: "default", uid };
    await node.manifest(`pod-${name}`, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { ...metadata, annotations },
    });
    const config = {
      metadata: { ...metadata, attempt: 0 },
      hostname: name,
      log_directory: `/var/log/pods/${name}`,
      annotations,
      linux: {
        cgroup_parent: `/${node.cgroup}`,
        security_context: { namespace_options: { pid: ownPidNamespace } },
      },
    };
    const response = await node.call<{ pod_sandbox_id: string }>("RunPodSandbox", { config });
    return new CrioPod(node, name, response.pod_sandbox_id);
  }

  /** The address that CRI-O tells the kubelet; undefined when it has none. */
  async ip(): Promise<string | undefined> {
    return (await this.#status()).status.network?.ip;
  }

  /** The interfaces in the pod but the loopback. */
  async links(): Promise<string[]> {
    const shown = await this.run("ip", "-json", "link");
    const links = JSON.parse(shown) as { readonly ifname: string }[];
    return links.map(({ ifname }) => ifname).filter((name) => name !== "lo");
  }

  /** Runs a program in the pod's network namespace. */
  async run(...command: string[]): Promise<string> {
    const netns = `--net=${await this.#netns()}`;
    return this.#node.host.run(["nsenter", netns, ...command]);
  }

  /** Stops the sandbox, with a DEL. @throws Error when that fails */
  async stop(): Promise<void> {
    await this.#node.call("StopPodSandbox", { pod_sandbox_id: this.id });
  }

  /** Stops and removes the sandbox. */
  async remove(): Promise<void> {
    await this.stop();
    await this.#node.call("RemovePodSandbox", { pod_sandbox_id: this.id });
  }

  async #netns(): Promise<string> {
    const { info } = await this.#status();
    const { runtimeSpec } = JSON.parse(info.info) as {
      runtimeSpec: { linux: { namespaces: { type: string; path: string }[] } };
    };
    const found = runtimeSpec.linux.namespaces.find(({ type }) => type === "network");
    if (found === undefined) throw new Error(`pod ${this.name} has no network namespace`);
    return found.path;
  }

  async #status(): Promise<{
    readonly status: { readonly network?: { readonly ip?: string } };
    readonly info: { readonly info: string };
  }> {
    return this.#node.call("PodSandboxStatus", { pod_sandbox_id: this.id, verbose: true });
  }
}
