import type { ServerResponse } from "node:http";

/** A Kubernetes object, as JSON has it. */
export type JsonObject = Record<string, unknown>;

/** The collections of the API that the benchmark has. */
export const kinds = {
  pods: { kind: "Pod", apiVersion: "v1" },
  "network-attachment-definitions": {
    kind: "NetworkAttachmentDefinition",
    apiVersion: "k8s.cni.cncf.io/v1",
  },
} as const;

/** A collection that can be listed and watched. */
export type Collection = keyof typeof kinds;

/** How a client wants its objects: some of them, or their metadata only. */
export interface View {
  readonly node: string | undefined;
  readonly metadataOnly: boolean;
}

interface Watch {
  readonly view: View;
  readonly response: ServerResponse;
}

/** The objects of one collection and those who watch it. */
export class Store {
  readonly #type: (typeof kinds)[Collection];
  readonly #objects = new Map<string, JsonObject>();
  readonly #watches = new Set<Watch>();
  #version = 1000;

  constructor(collection: Collection) {
    this.#type = kinds[collection];
    // As the real one does every minute, so that clients know a quiet watch from a dead one.
    setInterval(() => this.#bookmark(), 60_000).unref();
  }

  get(key: string): JsonObject | undefined {
    return this.#objects.get(key);
  }

  /** Replaces all objects; the watches get an event for each. */
  replaceAll(objects: readonly JsonObject[]): void {
    for (const object of this.#objects.values()) this.#tell("DELETED", object);
    this.#objects.clear();
    for (const object of objects) this.put(object);
  }

  put(object: JsonObject): JsonObject {
    const metadata = object.metadata as JsonObject;
    const key = `${String(metadata.namespace)}/${String(metadata.name)}`;
    const stored = {
      ...this.#type,
      ...object,
      metadata: { ...metadata, resourceVersion: String(++this.#version) },
    };
    const type = this.#objects.has(key) ? "MODIFIED" : "ADDED";
    this.#objects.set(key, stored);
    this.#tell(type, stored);
    return stored;
  }

  list(view: View): JsonObject {
    const { kind, apiVersion } = view.metadataOnly ? partialMetadata : this.#type;
    const metadata = { resourceVersion: String(this.#version) };
    const items = this.#selected(view).map((object) => asViewed(object, view));
    return { kind: `${kind}List`, apiVersion, metadata, items };
  }

  /** Keeps a response as a watch; `fromStart` sends what there is first, as WatchList does. */
  watch(response: ServerResponse, view: View, fromStart: boolean): void {
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    if (fromStart) {
      for (const object of this.#selected(view)) send(response, "ADDED", asViewed(object, view));
      const annotations = { "k8s.io/initial-events-end": "true" };
      const metadata = { resourceVersion: String(this.#version), annotations };
      send(response, "BOOKMARK", { ...this.#type, metadata });
    }
    const watch = { view, response };
    this.#watches.add(watch);
    response.on("close", () => this.#watches.delete(watch));
  }

  #selected(view: View): JsonObject[] {
    return [...this.#objects.values()].filter((object) => isSelected(object, view));
  }

  #bookmark(): void {
    const metadata = { resourceVersion: String(this.#version) };
    for (const { response } of this.#watches)
      send(response, "BOOKMARK", { ...this.#type, metadata });
  }

  #tell(type: string, object: JsonObject): void {
    for (const { view, response } of this.#watches) {
      if (isSelected(object, view)) send(response, type, asViewed(object, view));
    }
  }
}

const partialMetadata = { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1" };

/** What of an object a client asked for. */
export function asViewed(object: JsonObject, view: View): JsonObject {
  return view.metadataOnly ? { ...partialMetadata, metadata: object.metadata ?? {} } : object;
}

function isSelected(object: JsonObject, { node }: View): boolean {
  return node === undefined || (object.spec as JsonObject | undefined)?.nodeName === node;
}

function send(response: ServerResponse, type: string, object: JsonObject): void {
  response.write(`${JSON.stringify({ type, object })}\n`);
}
