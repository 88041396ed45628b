import { isJsonObject, type JsonObject } from "#lib/json.ts";

/** The counter of all collections, and the oldest version that watches may start from. */
export interface Versions {
  current: number;
  oldest: number;
}

/** The server's end of a watch. */
interface Stream {
  /** There is something to send. */
  send(): void;
  /** The connection breaks. */
  break(): void;
}

type ChangeType = "ADDED" | "MODIFIED" | "DELETED";

interface Change {
  readonly type: ChangeType;
  readonly version: number;
  readonly key: string;
  readonly object: JsonObject;
  /** The object until this change. */
  readonly before: JsonObject | undefined;
  /** The event as text, made for the first watch that needs it. */
  readonly events: { partial?: string; whole?: string };
}

const partial = { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1" };

/** Kind and version of objects, as far as clients insist on them. */
const types: Readonly<Record<string, JsonObject>> = {
  pods: { kind: "Pod", apiVersion: "v1" },
  "network-attachment-definitions": {
    kind: "NetworkAttachmentDefinition",
    apiVersion: "k8s.cni.cncf.io/v1",
  },
};

/** The objects of one resource type, and their changes since the last compaction. */
export class Collection {
  readonly resource: string;
  readonly type: JsonObject;
  readonly versions: Versions;
  /** Open watches. */
  readonly streams = new Set<Stream>();
  /** By `NAMESPACE/NAME`, or `NAME`. Watches are not told of what is changed here directly. */
  readonly objects = new Map<string, JsonObject>();
  #changes: Change[] = [];
  /** How many changes compactions have removed. */
  #removed = 0;

  constructor(resource: string, versions: Versions) {
    this.resource = resource;
    this.type = types[resource] ?? {};
    this.versions = versions;
  }

  /** Creates or replaces an object, at a new version. */
  put(object: JsonObject): JsonObject {
    const { namespace, name } = metadataOf(object);
    const key = namespace === undefined ? `${name}` : `${namespace}/${name}`;
    const before = this.objects.get(key);
    const stored = this.#nextVersionOf(object);
    this.objects.set(key, stored);
    this.#changed(before === undefined ? "ADDED" : "MODIFIED", { key, object: stored, before });
    return stored;
  }

  /** @returns the object; undefined when there was none */
  remove(key: string): JsonObject | undefined {
    const before = this.objects.get(key);
    if (before === undefined) return undefined;
    this.objects.delete(key);
    this.#changed("DELETED", { key, object: this.#nextVersionOf(before), before });
    return before;
  }

  /** The objects as of a version, which must not be before the last compaction. */
  at(version: number): ReadonlyMap<string, JsonObject> {
    const last = this.#changes.at(-1);
    if (last === undefined || last.version <= version) return this.objects;
    const objects = new Map(this.objects);
    for (let index = this.#changes.length - 1; index >= 0; index--) {
      const change = this.#changes[index];
      if (change === undefined || change.version <= version) break;
      if (change.before === undefined) objects.delete(change.key);
      else objects.set(change.key, change.before);
    }
    return objects;
  }

  /** The number of the first change after a version, for {@link Collection.change}. */
  firstAfter(version: number): number {
    let index = this.#changes.length;
    while (index > 0 && (this.#changes[index - 1]?.version ?? 0) > version) index -= 1;
    return this.#removed + index;
  }

  /** A change by its number: undefined when it has not happened yet, "expired" after a compaction. */
  change(number: number): Change | "expired" | undefined {
    return number < this.#removed ? "expired" : this.#changes[number - this.#removed];
  }

  /** The event that tells watches about a change. */
  eventOf({ type, object, events }: Change, isPartial: boolean): string {
    const view = isPartial ? "partial" : "whole";
    events[view] ??= `{"type":"${type}","object":${JSON.stringify(this.view(object, isPartial))}}`;
    return events[view];
  }

  /** The event that tells a watch that it has received everything. */
  bookmark(isPartial: boolean, annotations?: JsonObject): string {
    const metadata = {
      resourceVersion: `${this.versions.current}`,
      ...(annotations && { annotations }),
    };
    const object = { ...(isPartial ? partial : this.type), metadata };
    return JSON.stringify({ type: "BOOKMARK", object });
  }

  /** The object, or its metadata only. */
  view(object: JsonObject, isPartial: boolean): JsonObject {
    return isPartial ? { ...partial, metadata: metadataOf(object) } : object;
  }

  /** As in the answer to a LIST, which has kind and version of a built-in type only once. */
  item(object: JsonObject, isPartial: boolean): JsonObject {
    const isCustom = this.resource === "network-attachment-definitions";
    if (isPartial || isCustom) return this.view(object, isPartial);
    const { kind: _kind, apiVersion: _version, ...item } = object;
    return item;
  }

  /** Kind and version of the answer to a LIST. */
  listType(isPartial: boolean): JsonObject {
    const { kind = "", ...version } = isPartial ? partial : this.type;
    return { kind: `${kind}List`, ...version };
  }

  /** Forgets all changes. */
  compact(): void {
    this.#removed += this.#changes.length;
    this.#changes = [];
  }

  #nextVersionOf(object: JsonObject): JsonObject {
    this.versions.current += 1;
    const resourceVersion = `${this.versions.current}`;
    return { ...object, metadata: { ...metadataOf(object), resourceVersion } };
  }

  #changed(type: ChangeType, change: Pick<Change, "key" | "object" | "before">): void {
    this.#changes.push({ ...change, type, version: this.versions.current, events: {} });
    for (const stream of this.streams) stream.send();
  }
}

/** An object's metadata; none is an empty one. */
export function metadataOf(object: JsonObject): JsonObject {
  return isJsonObject(object.metadata) ? object.metadata : {};
}
