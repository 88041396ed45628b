import type { JsonObject } from "#lib/json.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { ground } from "../world/ground.ts";
import { Collection, type KubeObject } from "./collection.ts";

/** A pod or a definition as the history creates it. */
export interface NewObject {
  readonly namespace: string;
  readonly name: string;
  /** @default one that no other object has or had */
  readonly uid?: string;
  readonly annotations?: Record<string, string>;
  /** Further fields, such as `deletionTimestamp`. */
  readonly metadata?: JsonObject;
  readonly spec?: JsonObject;
  readonly status?: JsonObject;
}

/** The API server of a history: pods of one node, NetworkAttachmentDefinitions, events, the Node. */
export class ApiServer {
  /** Objects per page of a LIST, if its limit is not smaller. */
  pageSize = Number.POSITIVE_INFINITY;
  /** Whether the CRD of NetworkAttachmentDefinitions exists. */
  hasNads = true;
  /** Events that were created or repeated. */
  events = 0;
  /** Changes with each restart: connections from before are broken. */
  epoch = 0;
  #isDown = false;
  readonly versions = { current: 1, oldest: 1 };
  readonly #pods = new Collection("pods", {
    type: { kind: "Pod", apiVersion: "v1" },
    versions: this.versions,
    isPartial: true,
  });
  readonly #nads = new Collection("network-attachment-definitions", {
    type: { kind: "NetworkAttachmentDefinition", apiVersion: "k8s.cni.cncf.io/v1" },
    versions: this.versions,
    isPartial: false,
  });
  readonly #removedUids = new Set<string>();

  /** Whether connections to it are refused. */
  get isDown(): boolean {
    return this.#isDown;
  }

  /** Creates a pod, or replaces all that it has. @throws Error for a UID that cannot be */
  putPod(pod: NewObject): void {
    this.#put(this.#pods, pod, { spec: { nodeName: "node-1" }, status: { phase: "Running" } });
  }

  /** @throws Error for a UID that cannot be */
  putNad(nad: NewObject): void {
    this.#put(this.#nads, nad, {});
  }

  /** Sets annotations of a pod that exists, as others than Plexus do; null removes one. */
  annotatePod(key: string, annotations: Readonly<Record<string, string | null>>): void {
    const pod = this.#pods.objects.get(key);
    if (pod !== undefined) this.annotate(this.#pods, pod, annotations);
  }

  removePod(key: string): void {
    this.#remove(this.#pods, key);
  }

  removeNad(key: string): void {
    this.#remove(this.#nads, key);
  }

  pod(key: string): KubeObject | undefined {
    return this.#pods.objects.get(key);
  }

  pods(): IterableIterator<KubeObject> {
    return this.#pods.objects.values();
  }

  nad(key: string): KubeObject | undefined {
    return this.#nads.objects.get(key);
  }

  /** The annotation that Plexus has written on a pod. */
  networkStatus(key: string): string | undefined {
    return this.pod(key)?.metadata.annotations[networkStatusAnnotation];
  }

  /** Forgets all earlier versions: what starts from one of them gets 410. */
  compact(): void {
    this.versions.oldest = this.versions.current;
    this.#pods.compact();
    this.#nads.compact();
    ground().note(() => `api: compacted @${this.versions.current}`);
  }

  /** Breaks all connections, and refuses new ones until {@link ApiServer.start}. */
  stop(): void {
    this.#isDown = true;
    this.epoch += 1;
    ground().note(() => "api: stopped");
    for (const { streams } of [this.#pods, this.#nads])
      for (const stream of [...streams]) stream.break();
  }

  /** Starts with the objects, and without a memory of their earlier versions. */
  start(): void {
    this.#isDown = false;
    ground().note(() => "api: started");
    this.compact();
  }

  restart(): void {
    this.stop();
    this.start();
  }

  /** The objects of a resource type; undefined when it is not served. */
  collection(resource: string): Collection | undefined {
    if (resource === this.#pods.resource) return this.#pods;
    return resource === this.#nads.resource && this.hasNads ? this.#nads : undefined;
  }

  /** A merge PATCH. One that changes nothing makes no new version. */
  annotate(
    collection: Collection,
    object: KubeObject,
    patch: Readonly<Record<string, string | null>>,
  ): KubeObject {
    const annotations = { ...object.metadata.annotations };
    let isChanged = false;
    for (const [key, value] of Object.entries(patch)) {
      isChanged ||= (annotations[key] ?? null) !== value;
      if (value === null) delete annotations[key];
      else annotations[key] = value;
    }
    if (!isChanged) return object;
    const { namespace, name } = object.metadata;
    const keys = Object.keys(patch);
    ground().note(() => `api: ${collection.resource} ${namespace}/${name}: ${keys.join(", ")} set`);
    return collection.put({ ...object, metadata: { ...object.metadata, annotations } });
  }

  #put(collection: Collection, object: NewObject, defaults: JsonObject): void {
    const { namespace, name, annotations = {}, spec, status } = object;
    const key = `${namespace}/${name}`;
    const before = collection.objects.get(key)?.metadata.uid;
    const uid = object.uid ?? before ?? `uid-${this.versions.current + 1}`;
    if (this.#removedUids.has(uid)) throw new Error(`the UID ${uid} was used before`);
    if (before !== undefined && before !== uid) throw new Error(`${key} exists with UID ${before}`);
    const metadata = {
      ...object.metadata,
      // The caller may change its annotations later; this object only changes with an event.
      ...{ namespace, name, uid, annotations: { ...annotations }, resourceVersion: "" },
    };
    const { resource, type } = collection;
    ground().note(() => `api: ${resource} ${key} (${uid}) ${before ? "replaced" : "created"}`);
    collection.put({
      ...type,
      ...defaults,
      ...(spec && { spec }),
      ...(status && { status }),
      metadata,
    });
  }

  #remove(collection: Collection, key: string): void {
    const removed = collection.remove(key);
    if (removed === undefined) return;
    this.#removedUids.add(removed.metadata.uid);
    ground().note(() => `api: ${collection.resource} ${key} (${removed.metadata.uid}) deleted`);
  }
}
