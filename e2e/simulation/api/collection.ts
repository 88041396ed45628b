import type { JsonObject } from "#lib/json.ts";

/** An object of the API server. It is never changed, only replaced. */
export interface KubeObject extends JsonObject {
  metadata: JsonObject & {
    namespace: string;
    name: string;
    uid: string;
    resourceVersion: string;
    annotations: Record<string, string>;
  };
}

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
  readonly object: KubeObject;
  /** The object until this change. */
  readonly before: KubeObject | undefined;
  /** The event as text, made for the first watch that needs it. */
  line: string | undefined;
}

const partial = { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1" };

/** The objects of one resource type, and their changes since the last compaction. */
export class Collection {
  readonly resource: string;
  readonly type: { readonly kind: string; readonly apiVersion: string };
  readonly versions: Versions;
  /** Open watches. */
  readonly streams = new Set<Stream>();
  /** By `NAMESPACE/NAME`. */
  readonly objects = new Map<string, KubeObject>();
  /** Whether watches get only metadata; Plexus watches pods like that. */
  readonly #isPartial: boolean;
  #changes: Change[] = [];
  /** How many changes compactions have removed. */
  #removed = 0;

  constructor(
    resource: string,
    options: { type: Collection["type"]; versions: Versions; isPartial: boolean },
  ) {
    this.resource = resource;
    this.type = options.type;
    this.versions = options.versions;
    this.#isPartial = options.isPartial;
  }

  /** Creates or replaces an object, at a new version. */
  put(object: KubeObject): KubeObject {
    const { namespace, name } = object.metadata;
    const key = `${namespace}/${name}`;
    const before = this.objects.get(key);
    const stored = this.#nextVersionOf(object);
    this.objects.set(key, stored);
    this.#changed(before === undefined ? "ADDED" : "MODIFIED", { key, object: stored, before });
    return stored;
  }

  /** @returns the object; undefined when there was none */
  remove(key: string): KubeObject | undefined {
    const before = this.objects.get(key);
    if (before === undefined) return undefined;
    this.objects.delete(key);
    this.#changed("DELETED", { key, object: this.#nextVersionOf(before), before });
    return before;
  }

  /** The objects as of a version, which must not be before the last compaction. */
  at(version: number): ReadonlyMap<string, KubeObject> {
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
  change(number: number): Readonly<Change> | "expired" | undefined {
    return number < this.#removed ? "expired" : this.#changes[number - this.#removed];
  }

  /** The event that tells watches about a change. */
  lineOf(change: Readonly<Change>): string {
    const { type, object } = change;
    const seen = this.view(object, this.#isPartial);
    (change as Change).line ??= `{"type":"${type}","object":${JSON.stringify(seen)}}`;
    return change.line as string;
  }

  /** The event that tells a watch that it has received everything. */
  bookmark(): string {
    const { kind, apiVersion } = this.#isPartial ? partial : this.type;
    const metadata = `{"resourceVersion":"${this.versions.current}"}`;
    const object = `{"kind":"${kind}","apiVersion":"${apiVersion}","metadata":${metadata}}`;
    return `{"type":"BOOKMARK","object":${object}}`;
  }

  /** The object, or its metadata only. */
  view(object: KubeObject, isPartial: boolean): JsonObject {
    return isPartial ? { ...partial, metadata: object.metadata } : object;
  }

  /** Forgets all changes. */
  compact(): void {
    this.#removed += this.#changes.length;
    this.#changes = [];
  }

  #nextVersionOf(object: KubeObject): KubeObject {
    this.versions.current += 1;
    const resourceVersion = `${this.versions.current}`;
    return { ...object, metadata: { ...object.metadata, resourceVersion } };
  }

  #changed(type: ChangeType, change: Pick<Change, "key" | "object" | "before">): void {
    const version = this.versions.current;
    const { key, object, before } = change;
    this.#changes.push({ type, version, key, object, before, line: undefined });
    for (const stream of this.streams) stream.send();
  }
}
