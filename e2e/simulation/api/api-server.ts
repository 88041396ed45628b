import type { Collection } from "#kube/testing/collection.ts";
import {
  type Answer,
  failure,
  merge,
  ObjectStore,
  placeOf,
  type StoreRequest,
  tooOld,
} from "#kube/testing/object-store.ts";
import { type JsonObject, objectOf } from "#lib/json.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { ground } from "../world/ground.ts";
import { WatchStream } from "./watch-stream.ts";
import type { WriteQueue } from "./write-queue.ts";

const notServed = failure(404, "NotFound", "the server could not find the requested resource");
const served = new Set([
  ...["pods", "network-attachment-definitions"],
  ...["services", "endpointslices", "leases"],
]);

/** A pod or a definition as the server has it. */
export interface KubeObject extends JsonObject {
  metadata: JsonObject & {
    namespace: string;
    name: string;
    uid: string;
    resourceVersion: string;
    annotations: Record<string, string>;
  };
}

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

/** The API server of a history, with one node, whose pods all have the label `app: db`. */
export class ApiServer extends ObjectStore {
  /** Events that were created or repeated. */
  events = 0;
  /** Changes with each restart: connections from before are broken. */
  epoch = 0;
  /** Whether a webhook changes the statuses that are written. */
  changesStatuses = false;
  /** Of a server that is busy. */
  writes: WriteQueue | undefined;
  #isDown = false;
  readonly #pods = this.collection("pods");
  readonly #nads = this.collection("network-attachment-definitions");
  readonly #removedUids = new Set<string>();

  /** Whether connections to it are refused. */
  get isDown(): boolean {
    return this.#isDown;
  }

  /** Creates a pod, or replaces all that it has. @throws Error for a UID that cannot be */
  putPod(pod: NewObject): void {
    const metadata = { labels: { app: "db" }, ...pod.metadata };
    this.#put(
      this.#pods,
      { ...pod, metadata },
      { spec: { nodeName: "node-1" }, status: { phase: "Running" } },
    );
  }

  /** @throws Error for a UID that cannot be */
  putNad(nad: NewObject): void {
    this.#put(this.#nads, nad, {});
  }

  /** Sets annotations of a pod that exists, as others than Plexus do; null removes one. */
  annotatePod(key: string, annotations: Readonly<Record<string, string | null>>): void {
    const pod = this.pod(key);
    if (pod === undefined) return;
    const names = Object.keys(annotations).join(", ");
    ground().note(() => `api: annotations of pod ${key} set: ${names}`);
    merge(this.#pods, pod, { metadata: { annotations } });
  }

  removePod(key: string): void {
    this.#remove(this.#pods, key);
  }

  removeNad(key: string): void {
    this.#remove(this.#nads, key);
  }

  /** The pod that the kubelet runs as `uid`, or its mirror; undefined if another one has the name. */
  podOf(key: string, uid: string): KubeObject | undefined {
    const pod = this.pod(key);
    const isOwn = [pod?.metadata.uid, pod?.metadata.annotations[mirrorAnnotation]].includes(uid);
    return isOwn ? pod : undefined;
  }

  pod(key: string): KubeObject | undefined {
    return this.#pods.objects.get(key) as KubeObject | undefined;
  }

  pods(): IterableIterator<KubeObject> {
    return this.#pods.objects.values() as IterableIterator<KubeObject>;
  }

  nad(key: string): KubeObject | undefined {
    return this.#nads.objects.get(key) as KubeObject | undefined;
  }

  /** The annotation that Plexus has written on a pod. */
  networkStatus(key: string): string | undefined {
    return this.pod(key)?.metadata.annotations[networkStatusAnnotation];
  }

  override compact(): void {
    super.compact();
    ground().note(() => `api: compacted @${this.versions.current}`);
  }

  /** Breaks all connections, and refuses new ones until {@link ApiServer.start}. */
  stop(): void {
    this.#isDown = true;
    this.epoch += 1;
    ground().note(() => "api: stopped");
    this.breakWatches();
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

  override answer(request: StoreRequest): Answer {
    const { resource, name } = placeOf(request.path);
    if (resource === "events") {
      this.events += 1;
      return { status: request.method === "POST" ? 201 : 200, body: {} };
    }
    if (resource === "nodes") return { status: 200, body: { metadata: { name }, spec: {} } };
    if (!served.has(resource)) return notServed;
    return super.answer(this.changesStatuses ? withChangedStatus(request) : request);
  }

  /** Begins a watch, for the client to open; or says why not. */
  watch(request: StoreRequest): WatchStream | Answer {
    const { resource } = placeOf(request.path);
    if (!served.has(resource)) return notServed;
    const from = Number(request.query.resourceVersion);
    if (from < this.versions.oldest) return failure(410, "Expired", tooOld(from));
    return new WatchStream(this.collection(resource), request);
  }

  #put(collection: Collection, object: NewObject, defaults: JsonObject): void {
    const { namespace, name, annotations = {}, spec, status } = object;
    const key = `${namespace}/${name}`;
    const before = collection.objects.get(key) as KubeObject | undefined;
    const uid = object.uid ?? before?.metadata.uid ?? `uid-${this.versions.current + 1}`;
    if (this.#removedUids.has(uid)) throw new Error(`the UID ${uid} was used before`);
    if (before !== undefined && before.metadata.uid !== uid)
      throw new Error(`${key} exists with UID ${before.metadata.uid}`);
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
    const removed = collection.remove(key) as KubeObject | undefined;
    if (removed === undefined) return;
    this.#removedUids.add(removed.metadata.uid);
    ground().note(() => `api: ${collection.resource} ${key} (${removed.metadata.uid}) deleted`);
  }
}

/** As a webhook that formats JSON would. */
function withChangedStatus(request: StoreRequest): StoreRequest {
  const { metadata } = objectOf(request.body);
  const { annotations, ...others } = objectOf(metadata);
  const text = objectOf(annotations)[networkStatusAnnotation];
  if (typeof text !== "string") return request;
  const changed = { ...objectOf(annotations), [networkStatusAnnotation]: ` ${text.trimStart()}` };
  return { ...request, body: { metadata: { ...others, annotations: changed } } };
}
