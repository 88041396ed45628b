import type {
  CalledPod,
  ClusterRanges,
  ClusterSource,
  Pod,
  PodName,
} from "#engine/ports/cluster.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";
import { runtimeUid } from "#npwg/object-meta.ts";

/** Pods and definitions in memory, with a list of what was asked. */
export class FakeSource implements ClusterSource {
  readonly #pods = new Map<string, Pod>();
  readonly #nads = new Map<string, NetworkAttachmentDefinition>();
  /** `pod namespace/name` and `nad namespace/name`, in the order in which they were asked for. */
  readonly asked: string[] = [];
  notReady: string | undefined;
  ranges: ClusterRanges | undefined;
  /** Namespaces by the selector that matches their labels. */
  readonly labelled = new Map<string, readonly string[]>();
  /** Thrown by every question, when set. */
  failure: Error | undefined;

  addPod(pod: { name: string } & Partial<Pod>): Pod {
    const complete = {
      namespace: "default",
      uid: "uid-1",
      annotations: {},
      ...pod,
    };
    this.#pods.set(`${complete.namespace}/${complete.name}`, complete);
    return complete;
  }

  removePod(name: string): void {
    this.#pods.delete(name);
  }

  /** A definition by `namespace/name`; without a config, its file is used. */
  addNad(path: string, conf?: JsonObject | string, annotations: Record<string, string> = {}): void {
    const [namespace = "", name = ""] = path.split("/");
    const config = typeof conf === "object" ? JSON.stringify(conf) : conf;
    this.#nads.set(path, omitUndefined({ namespace, name, annotations, config }));
  }

  removeNad(path: string): void {
    this.#nads.delete(path);
  }

  async getPod(identity: CalledPod): Promise<Pod | undefined> {
    this.asked.push(`pod ${identity.namespace}/${identity.name}`);
    if (this.failure !== undefined) throw this.failure;
    const pod = this.#pods.get(`${identity.namespace}/${identity.name}`);
    if (pod === undefined || identity.uid === undefined) return pod;
    return [pod.uid, runtimeUid(pod)].includes(identity.uid) ? pod : undefined;
  }

  async namespaceMatches(namespace: string, selector: string): Promise<boolean> {
    if (this.failure !== undefined) throw this.failure;
    return this.labelled.get(selector)?.includes(namespace) === true;
  }

  knownPod({ namespace, name }: PodName): Pod | undefined {
    return this.#pods.get(`${namespace}/${name}`);
  }

  async getPodObject(
    { namespace, name }: CalledPod,
    _options: { readonly signal?: AbortSignal },
  ): Promise<JsonObject | undefined> {
    this.asked.push(`object ${namespace}/${name}`);
    if (this.failure !== undefined) throw this.failure;
    return undefined;
  }

  async getNad(ref: {
    namespace: string;
    name: string;
  }): Promise<NetworkAttachmentDefinition | undefined> {
    this.asked.push(`nad ${ref.namespace}/${ref.name}`);
    if (this.failure !== undefined) throw this.failure;
    return this.#nads.get(`${ref.namespace}/${ref.name}`);
  }

  knownNads(): Iterable<NetworkAttachmentDefinition> {
    return this.#nads.values();
  }

  async clusterRanges(): Promise<ClusterRanges | undefined> {
    this.asked.push("cluster ranges");
    if (this.failure !== undefined) throw this.failure;
    return this.ranges;
  }

  notReadyReason(): string | undefined {
    return this.notReady;
  }
}
