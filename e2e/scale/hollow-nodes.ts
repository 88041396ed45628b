import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { noLogger } from "#engine/ports/logger.ts";
import { type KubeAdapter, startKube } from "#kube/adapter.ts";
import { ApiClient } from "#kube/api/client.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { requestNodeToken } from "#kube/node/node-token.ts";
import { Slots } from "#lib/concurrency/slots.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

/** Which nodes one process stands for. */
export interface HollowOptions {
  /** The administrator's. */
  readonly kubeconfig: string;
  /** For the kubeconfigs of the nodes. */
  readonly directory: string;
  readonly first: number;
  readonly count: number;
  readonly podsPerNode: number;
}

/** Attempts to write statuses, and how many of them the API server has accepted. */
export interface StatusCounts {
  readonly attempts: number;
  readonly written: number;
}

interface HollowPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

interface HollowNode {
  readonly name: string;
  readonly pods: readonly HollowPod[];
  readonly kube: KubeAdapter;
}

/** Pods are in so many namespaces. */
export const namespaces = ["scale-0", "scale-1", "scale-2", "scale-3"] as const;

const account = { namespace: "kube-system", name: "plexusd" };
const timeoutMs = 60_000;

/** Nodes without a kubelet: for each, the API adapter of plexusd, with a token that is bound to the Node. */
export class HollowNodes {
  readonly #options: HollowOptions;
  readonly #admin: ApiClient;
  readonly #counts = { attempts: 0, written: 0 };
  #nodes: readonly HollowNode[] = [];

  private constructor(options: HollowOptions, admin: ApiClient) {
    this.#options = options;
    this.#admin = admin;
  }

  /** Creates the Nodes and their pods, and starts the adapters. Resolves when all have LISTed. */
  static async start(options: HollowOptions): Promise<HollowNodes> {
    const admin = new ApiClient(await kubeconfigCredentials(options.kubeconfig));
    const hollow = new HollowNodes(options, admin);
    const slots = new Slots(8);
    const numbers = Array.from({ length: options.count }, (_, index) => options.first + index);
    hollow.#nodes = await Promise.all(
      numbers.map(async (number) => {
        using _slot = await slots.acquire(new AbortController().signal);
        return hollow.#startNode(`hollow-${number}`);
      }),
    );
    await hollow.#until(({ kube }) => kube.source.notReadyReason() === undefined);
    return hollow;
  }

  /** All pods of all nodes get a status and an event at once. Resolves when all are written. */
  async attach(round: number): Promise<StatusCounts> {
    const before = { ...this.#counts };
    const status = [{ name: "pods", interface: "eth0", ips: [`10.0.0.${round}`], default: true }];
    const annotations = { [networkStatusAnnotation]: JSON.stringify(status) };
    const attached = { type: "Normal", reason: "AddedInterface", message: `Add eth0 ${round}` };
    const all = this.#nodes.flatMap(({ kube, pods }) => pods.map((pod) => ({ kube, pod })));
    await Promise.all(
      all.map(async ({ kube, pod }) => {
        kube.events.record(pod, attached as Parameters<typeof kube.events.record>[1]);
        await kube.publisher.publish(pod, annotations, { waitsForEnd: true });
      }),
    );
    const { attempts, written } = this.#counts;
    return { attempts: attempts - before.attempts, written: written - before.written };
  }

  async stop(): Promise<void> {
    await Promise.all(this.#nodes.map(({ kube }) => kube.stop(0)));
    this.#admin.close();
  }

  async #startNode(name: string): Promise<HollowNode> {
    const { podsPerNode } = this.#options;
    await this.#create("/api/v1/nodes", { kind: "Node", metadata: { name } });
    const pods: HollowPod[] = [];
    for (let i = 0; i < podsPerNode; i++) pods.push(await this.#createPod(name, i));
    const kube = await startKube({
      ...{ kubeconfig: await this.#kubeconfigOf(name), nodeName: name, logger: noLogger },
      ...{ apiTimeoutMs: 5000, statusWaitMs: 2000 },
      metrics: {
        statusWrite: (result) => {
          this.#counts.attempts += 1;
          if (result === "written") this.#counts.written += 1;
        },
      },
    });
    return { name, pods, kube };
  }

  async #createPod(nodeName: string, index: number): Promise<HollowPod> {
    const namespace = namespaces[index % namespaces.length] as string;
    const name = `${nodeName}-${index}`;
    const spec = {
      ...{ nodeName, automountServiceAccountToken: false, tolerations: [{ operator: "Exists" }] },
      containers: [{ name: "hollow", image: "hollow" }],
    };
    const path = apiPaths.podsOf(namespace);
    const { uid } = await this.#create(path, { kind: "Pod", metadata: { name }, spec });
    return { namespace, name, uid };
  }

  async #create(path: string, object: object): Promise<{ readonly uid: string }> {
    const body = { apiVersion: "v1", ...object };
    const { metadata } = await this.#admin.json({ method: "POST", path, body, timeoutMs });
    return metadata as { readonly uid: string } & typeof metadata;
  }

  /** The administrator's kubeconfig with a token of plexusd's account instead. */
  async #kubeconfigOf(nodeName: string): Promise<string> {
    const { kubeconfig, directory } = this.#options;
    const token = await requestNodeToken(this.#admin, { account, nodeName, seconds: 3600 });
    const config = JSON.parse(await readFile(kubeconfig, "utf8"));
    const users = [{ ...config.users[0], user: { token } }];
    const path = join(directory, `${nodeName}.kubeconfig`);
    await writeFile(path, JSON.stringify({ ...config, users }), { mode: 0o600 });
    return path;
  }

  async #until(isDone: (node: HollowNode) => boolean): Promise<void> {
    while (!this.#nodes.every(isDone)) await sleep(50);
  }
}
