import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { ground } from "../world/ground.ts";
import type { ApiServer } from "./api-server.ts";
import type { Collection, Versions } from "./collection.ts";
import { WatchStream } from "./watch-stream.ts";

/** A request as the server reads it. */
export interface ServerRequest {
  readonly method: string;
  /** Names are not percent-decoded: valid ones have nothing to decode. */
  readonly path: string;
  readonly query: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body: unknown;
  /** Whether the client asks for metadata only. */
  readonly isPartial: boolean;
  /** Whether a read may show an earlier state. */
  readonly isOld: boolean;
}

/** The answer to a request that is no watch. */
export interface Answer {
  readonly status: number;
  readonly body: Json;
}

interface Target {
  readonly server: ApiServer;
  readonly collection: Collection;
  /** `NAMESPACE/NAME` of one object. */
  readonly key: string;
  readonly request: ServerRequest;
}

/** Processes a request that is no watch: all of it happens at this moment. */
export function answer(server: ApiServer, request: ServerRequest): Answer {
  const { method } = request;
  const { resource, key, name } = placeOf(request.path);
  if (resource === "events") {
    server.events += 1;
    return { status: method === "POST" ? 201 : 200, body: {} };
  }
  if (resource === "nodes") return ok({ metadata: { name }, spec: {} });
  const collection = server.collection(resource);
  if (collection === undefined) return notServed();
  const target = { server, collection, key, request };
  if (name === "") return list(target);
  return method === "PATCH" ? patch(target) : get(target);
}

/** Begins a watch, for the client to open; or says why not. */
export function watch(server: ApiServer, { path, query }: ServerRequest): WatchStream | Answer {
  const collection = server.collection(placeOf(path).resource);
  if (collection === undefined) return notServed();
  const from = Number(query.resourceVersion);
  if (from < server.versions.oldest) return expired(from);
  return new WatchStream(collection, { from, timeoutSeconds: Number(query.timeoutSeconds) });
}

function get({ collection, key, request }: Target): Answer {
  const { versions } = collection;
  const version = request.isOld ? earlierVersion(versions, versions.oldest) : versions.current;
  const object = collection.at(version).get(key);
  if (object === undefined) return notFound(collection, key);
  return ok(collection.view(object, request.isPartial));
}

function list({ server, collection, request }: Target): Answer {
  const { query, isPartial } = request;
  const { version, start } = listStart(request, server.versions);
  if (version < server.versions.oldest) return expired(version);
  const all = [...collection.at(version).values()];
  // The server's cache, which answers for version 0, ignores the limit.
  const limit = query.resourceVersion === "0" ? Infinity : Number(query.limit ?? Infinity);
  const end = start + Math.min(limit, server.pageSize);
  const items = all.slice(start, end).map((object) => collection.view(object, isPartial));
  const metadata: JsonObject = { resourceVersion: `${version}` };
  if (end < all.length) metadata.continue = `${version}:${end}`;
  return ok({ kind: `${collection.type.kind}List`, metadata, items });
}

/** An empty version stands for the newest, any other for the oldest that the client accepts. */
function listStart(
  { query, isOld }: ServerRequest,
  versions: Versions,
): { version: number; start: number } {
  const { continue: token, resourceVersion = "" } = query;
  if (typeof token === "string") {
    const [version = 0, start = 0] = token.split(":").map(Number);
    return { version, start };
  }
  const mayBeOld = isOld && resourceVersion !== "";
  const version = mayBeOld ? earlierVersion(versions, Number(resourceVersion)) : versions.current;
  return { version, start: 0 };
}

/** A version that the server remembers, from the given one on. */
function earlierVersion({ oldest, current }: Versions, from: number): number {
  return ground().random.integer(Math.max(from, oldest), current);
}

function patch({ server, collection, key, request }: Target): Answer {
  const object = collection.objects.get(key);
  if (object === undefined) return notFound(collection, key);
  const { body } = request;
  const metadata = isJsonObject(body) && isJsonObject(body.metadata) ? body.metadata : {};
  const { uid } = object.metadata;
  if (metadata.uid !== undefined && metadata.uid !== uid) {
    return failure(409, "Conflict", `the UID in the precondition is not ${uid}`);
  }
  const annotations = metadata.annotations as Record<string, string | null>;
  const patched = server.annotate(collection, object, annotations);
  return ok(collection.view(patched, request.isPartial));
}

/** `/api/v1/…` or `/apis/GROUP/v1/…`, then `RESOURCE/NAME` or `namespaces/NAMESPACE/RESOURCE/NAME`. */
function placeOf(path: string): { resource: string; name: string; key: string } {
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

function notServed(): Answer {
  return failure(404, "NotFound", "the server could not find the requested resource");
}

function notFound({ resource }: Collection, key: string): Answer {
  return failure(404, "NotFound", `${resource} "${key}" not found`);
}

function expired(version: number): Answer {
  return failure(410, "Expired", `too old resource version: ${version}`);
}

/** A Status object as the server sends it. */
export function failure(code: number, reason: string, message: string): Answer {
  const body = { kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message };
  return { status: code, body };
}
