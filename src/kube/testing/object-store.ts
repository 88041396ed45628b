import { isDeepStrictEqual } from "node:util";
import { isJsonObject, type Json, type JsonObject, objectsOf } from "#lib/json.ts";
import { Collection, metadataOf, type Versions } from "./collection.ts";
import { isSelected, type Query } from "./selectors.ts";

/** A request as the server reads it. */
export interface StoreRequest {
  readonly method: string;
  /** Without percent-encoding. */
  readonly path: string;
  readonly query: Query;
  readonly body: unknown;
  /** Whether the client asks for metadata only. */
  readonly isPartial: boolean;
  /** Chooses the version that a read shows, from the given one on. @default the newest */
  readonly readVersion?: ((from: number) => number) | undefined;
}

/** The answer to a request that is no watch. */
export interface Answer {
  readonly status: number;
  readonly body: Json;
}

/** What a request is about. */
interface Target {
  readonly collection: Collection;
  /** `NAMESPACE/NAME` of one object, or `NAME`. */
  readonly key: string;
  readonly request: StoreRequest;
}

/** Of the resource types outside of the core group. */
const groupVersions: Readonly<Record<string, string>> = {
  daemonsets: "apps/v1",
  "network-attachment-definitions": "k8s.cni.cncf.io/v1",
  resourceclaims: "resource.k8s.io/v1",
};

/** The objects of an API server, and its answers about them. */
export class ObjectStore {
  /** Objects per page of a LIST, if its limit is not smaller. */
  pageSize = Number.POSITIVE_INFINITY;
  /** Collections that answer 404: their CRD is not there. */
  readonly absent = new Set<string>();
  readonly versions: Versions = { current: 100, oldest: 100 };
  readonly #collections = new Map<string, Collection>();

  /** The objects of a resource type. */
  collection(resource: string): Collection {
    const known = this.#collections.get(resource);
    const collection = known ?? new Collection(resource, this.versions);
    if (known === undefined) this.#collections.set(resource, collection);
    return collection;
  }

  /** Forgets all earlier versions: what starts from one of them gets 410. */
  compact(): void {
    this.versions.oldest = this.versions.current;
    for (const collection of this.#collections.values()) collection.compact();
  }

  /** Breaks all watches. */
  breakWatches(): void {
    for (const { streams } of this.#collections.values())
      for (const stream of [...streams]) stream.break();
  }

  /** Processes a request that is no watch. */
  answer(request: StoreRequest): Answer {
    const { method, path } = request;
    if (path === "/apis") return this.#groups();
    const { resource, key, name } = placeOf(path);
    if (this.absent.has(resource)) return notServed;
    const target = { collection: this.collection(resource), key, request };
    if (method === "POST") return { status: 201, body: target.collection.put(bodyOf(request)) };
    if (name === "") return this.#list(target);
    if (method === "DELETE") return remove(target);
    return method === "PATCH" || method === "PUT" ? patch(target) : this.#get(target);
  }

  /** The groups and versions that are served, as far as Plexus asks for them. */
  #groups(): Answer {
    const versions = Object.entries(groupVersions)
      .filter(([resource]) => !this.absent.has(resource))
      .map(([, groupVersion]) => ({ groupVersion }));
    return ok({ kind: "APIGroupList", apiVersion: "v1", groups: [{ versions }] });
  }

  #get({ collection, key, request }: Target): Answer {
    const { oldest, current } = this.versions;
    const version = request.readVersion?.(oldest) ?? current;
    const object = collection.at(version).get(key);
    if (object === undefined) return notFound(collection, key);
    return ok(collection.view(object, request.isPartial));
  }

  #list({ collection, request }: Target): Answer {
    const { query, isPartial } = request;
    const { version, start } = this.#listStart(request);
    if (version < this.versions.oldest) return failure(410, "Expired", tooOld(version));
    if (version > this.versions.current) return failure(504, "Timeout", tooNew(version));
    const all = [...collection.at(version).values()].filter((each) => isSelected(each, query));
    // The server's cache, which answers for version 0, ignores the limit.
    const limit = query.resourceVersion === "0" ? Infinity : Number(query.limit ?? Infinity);
    const end = start + Math.min(limit, this.pageSize);
    const items = all.slice(start, end).map((object) => collection.item(object, isPartial));
    const metadata: JsonObject = { resourceVersion: `${version}` };
    if (end < all.length) metadata.continue = `${version}:${end}`;
    return ok({ ...collection.listType(isPartial), metadata, items });
  }

  /** An empty version stands for the newest, any other for the oldest that the client accepts. */
  #listStart({ query, readVersion }: StoreRequest): { version: number; start: number } {
    const { continue: token, resourceVersion = "" } = query;
    if (typeof token === "string") {
      const [version = 0, start = 0] = token.split(":").map(Number);
      return { version, start };
    }
    const from = Number(resourceVersion);
    // A limit and a version, but no resourceVersionMatch, ask for that very version.
    const isExact =
      from > 0 && query.limit !== undefined && query.resourceVersionMatch === undefined;
    if (isExact) return { version: from, start: 0 };
    const { current, oldest } = this.versions;
    if (from > current) return { version: from, start: 0 };
    const older = resourceVersion === "" ? undefined : readVersion?.(Math.max(from, oldest));
    return { version: older ?? current, start: 0 };
  }
}

function remove({ collection, key, request }: Target): Answer {
  const object = collection.objects.get(key);
  if (object === undefined) return notFound(collection, key);
  const { preconditions } = bodyOf(request);
  const conflict = conflictOf(object, isJsonObject(preconditions) ? preconditions : {});
  if (conflict !== undefined) return conflict;
  collection.remove(key);
  return ok(object);
}

/** A merge PATCH, or an apply, which also creates. One that changes nothing makes no new version. */
function patch({ collection, key, request }: Target): Answer {
  const object = collection.objects.get(key);
  const body = bodyOf(request);
  const { force } = request.query;
  if (object === undefined && force !== undefined) return ok(collection.put(body));
  if (object === undefined) return notFound(collection, key);
  if (force === "false") return failure(409, "Conflict", "Apply failed: another manager has these");
  const conflict = conflictOf(object, metadataOf(body));
  if (conflict !== undefined) return conflict;
  return ok(collection.view(merge(collection, object, body), request.isPartial));
}

/** A precondition that does not hold. */
function conflictOf(object: JsonObject, wanted: JsonObject): Answer | undefined {
  const is = metadataOf(object);
  const wrong = ["uid", "resourceVersion"].find((key) => (wanted[key] ?? is[key]) !== is[key]);
  if (wrong === undefined) return undefined;
  return failure(409, "Conflict", `the ${wrong} in the precondition is not ${is[wrong]}`);
}

/** Changes an object by a merge patch (RFC 7396), if the patch changes anything. */
export function merge(collection: Collection, object: JsonObject, patch: JsonObject): JsonObject {
  const merged = mergePatch(object, patch) as JsonObject;
  return isDeepStrictEqual(merged, object) ? object : collection.put(merged);
}

function mergePatch(target: Json | undefined, patch: Json): Json {
  if (!isJsonObject(patch)) return patch;
  const result: JsonObject = isJsonObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else if (key === "conditions") result[key] = mergeConditions(objectsOf(result[key]), value);
    else result[key] = mergePatch(result[key], value);
  }
  return result;
}

/** As a strategic merge patch, which is the only one that Plexus sends of conditions. */
function mergeConditions(conditions: readonly JsonObject[], patch: Json): JsonObject[] {
  const changed = new Map(conditions.map((each) => [each.type, each]));
  for (const each of objectsOf(patch)) {
    if (each.$patch === "delete") changed.delete(each.type);
    else changed.set(each.type, { ...changed.get(each.type), ...each });
  }
  return [...changed.values()];
}

function bodyOf({ body }: StoreRequest): JsonObject {
  return isJsonObject(body) ? body : {};
}

/** `/api/v1/…` or `/apis/GROUP/v1/…`, then `RESOURCE/NAME` or `namespaces/NAMESPACE/RESOURCE/NAME`. */
export function placeOf(path: string): { resource: string; name: string; key: string } {
  const parts = path.split("/");
  const start = parts[1] === "api" ? 3 : 4;
  const isNamespaced = parts[start] === "namespaces";
  const at = isNamespaced ? start + 2 : start;
  const { [at]: resource = "", [at + 1]: name = "" } = parts;
  return { resource, name, key: isNamespaced ? `${parts[start + 1]}/${name}` : name };
}

function ok(body: Json): Answer {
  return { status: 200, body };
}

/** As the real one answers for a group or version that it does not serve: not in JSON. */
const notServed: Answer = { status: 404, body: "404 page not found\n" };

function notFound({ resource }: Collection, key: string): Answer {
  return failure(404, "NotFound", `${resource} "${key}" not found`);
}

/** The message of HTTP 410. */
export function tooOld(version: number): string {
  return `too old resource version: ${version}`;
}

function tooNew(version: number): string {
  return `Too large resource version: ${version}`;
}

/** A Status object as the server sends it. */
export function failure(code: number, reason: string, message: string): Answer {
  const body = { kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message };
  return { status: code, body };
}
