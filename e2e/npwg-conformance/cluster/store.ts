import { asObject, isObject, type JsonObject } from "../json.ts";

/** A change of an object, as a watch reports it. */
export interface Change {
  readonly version: number;
  readonly collection: string;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: JsonObject;
}

/** The objects of the suite's API server, by `COLLECTION/NAMESPACE/NAME`, and their history. */
export class Store {
  version = 1;
  readonly history: Change[] = [];
  /** Called with every change. */
  onChange: (change: Change) => void = () => undefined;
  readonly #objects = new Map<string, JsonObject>();

  get(key: string): JsonObject | undefined {
    return this.#objects.get(key);
  }

  list(collection: string, namespace: string): JsonObject[] {
    const prefix = namespace === "" ? `${collection}/` : `${collection}/${namespace}/`;
    return [...this.#objects].flatMap(([key, object]) => (key.startsWith(prefix) ? [object] : []));
  }

  put(key: string, object: JsonObject): JsonObject {
    const type = this.#objects.has(key) ? "MODIFIED" : "ADDED";
    const stored = this.#versioned(object);
    this.#objects.set(key, stored);
    this.#report(key, type, stored);
    return stored;
  }

  delete(key: string): void {
    const object = this.#objects.get(key);
    if (object === undefined) return;
    this.#objects.delete(key);
    this.#report(key, "DELETED", this.#versioned(object));
  }

  deleteNamespace(namespace: string): void {
    const keys = [...this.#objects.keys()].filter((key) => key.split("/")[1] === namespace);
    for (const key of keys) this.delete(key);
  }

  #versioned(object: JsonObject): JsonObject {
    this.version += 1;
    const metadata = { ...asObject(object.metadata), resourceVersion: `${this.version}` };
    return { ...object, metadata };
  }

  #report(key: string, type: Change["type"], object: JsonObject): void {
    const [collection = ""] = key.split("/");
    const change = { version: this.version, collection, type, object };
    this.history.push(change);
    this.onChange(change);
  }
}

/** RFC 7396. On annotations, merge, strategic-merge and apply patches of JSON all do this. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result: Record<string, unknown> = { ...asObject(target) };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatch(result[key], value);
  }
  return result;
}
