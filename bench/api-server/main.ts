import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { statusAnnotation } from "../../e2e/support/status-annotation.ts";
import { asViewed, type Collection, type JsonObject, kinds, Store, type View } from "./store.ts";

/**
 * The API server of the benchmark: HTTPS, bearer tokens, and LIST, WATCH, GET, PATCH and PUT of pods
 * and NetworkAttachmentDefinitions; events are accepted and forgotten. It counts requests by token,
 * which is the contender's name. A process of its own, so that its CPU time is nobody's;
 * its parent talks to it by messages (client.ts).
 */
export type Order =
  | { readonly kind: "replace"; readonly collection: Collection; readonly objects: JsonObject[] }
  | { readonly kind: "counts" }
  | { readonly kind: "pod"; readonly key: string };

/** Requests of each contender: `PATCH pods` → how many. */
export type Counts = Record<string, Record<string, number>>;

const [certificate = "", key = ""] = process.argv.slice(2);
const stores = new Map(Object.keys(kinds).map((name) => [name, new Store(name as Collection)]));
const counts: Counts = {};

const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) });
// The real one closes idle connections after minutes, not after Node's five seconds.
server.keepAliveTimeout = 120_000;
server.on("request", (request: IncomingMessage, response: ServerResponse) => {
  serve(request, response).catch((error: unknown) => reply(response, 500, failure(500, error)));
});
server.listen(0, "127.0.0.1", () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
process.on("message", ({ id, order }: { id: number; order: Order }) => {
  process.send?.({ id, answer: carryOut(order) });
});
process.on("disconnect", () => process.exit(0));

function carryOut(order: Order): unknown {
  if (order.kind === "counts") return counts;
  if (order.kind === "pod") return stores.get("pods")?.get(order.key) ?? null;
  stores.get(order.collection)?.replaceAll(order.objects);
  return null;
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "https://bench");
  const { namespace = "", collection, name } = targetOf(url.pathname);
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? "")?.[1];
  if (token !== undefined) {
    count(token, `${verbOf(request.method ?? "", url.searchParams, name)} ${collection}`);
  }
  const store = stores.get(collection);
  const view: View = {
    node: url.searchParams.get("fieldSelector")?.replace("spec.nodeName=", ""),
    metadataOnly: request.headers.accept?.includes("as=PartialObjectMetadata") ?? false,
  };
  if (token === undefined) reply(response, 401, failure(401, "no token"));
  else if (collection === "events") reply(response, 201, { kind: "Event", apiVersion: "v1" });
  else if (store === undefined) reply(response, 404, failure(404, collection));
  else if (isTrue(url.searchParams.get("watch")))
    store.watch(response, view, isTrue(url.searchParams.get("sendInitialEvents")));
  else if (name === undefined) reply(response, 200, store.list(view));
  else {
    const object = oneObject(store, `${namespace}/${name}`, Buffer.concat(chunks));
    if (object === undefined) reply(response, 404, failure(404, name));
    else reply(response, 200, asViewed(object, view));
  }
}

/** The parts of `/api/v1/namespaces/NAMESPACE/COLLECTION/NAME`, of which all but the collection may be absent. */
function targetOf(path: string): { namespace?: string; collection: string; name?: string } {
  const parts = path.split("/").filter((part) => part !== "");
  const rest = parts.slice(parts[0] === "api" ? 2 : 3);
  const [namespace, [collection = path, name]] =
    rest[0] === "namespaces" ? [rest[1], rest.slice(2)] : [undefined, rest];
  return {
    collection,
    ...(namespace !== undefined && { namespace }),
    ...(name !== undefined && { name }),
  };
}

/** An object, with the network-status annotation of a body that a client writes. */
function oneObject(store: Store, key: string, body: Buffer): JsonObject | undefined {
  const object = store.get(key);
  if (object === undefined || body.length === 0) return object;
  const metadata = object.metadata as JsonObject;
  const value = statusAnnotation(body);
  const annotations = {
    ...(metadata.annotations as JsonObject),
    ...(value !== undefined && { "k8s.v1.cni.cncf.io/network-status": value }),
  };
  return store.put({ ...object, metadata: { ...metadata, annotations } });
}

function count(token: string, what: string): void {
  counts[token] ??= {};
  counts[token][what] = (counts[token][what] ?? 0) + 1;
}

function verbOf(method: string, query: URLSearchParams, name: string | undefined): string {
  if (method !== "GET") return method;
  if (isTrue(query.get("watch"))) return "WATCH";
  return name === undefined ? "LIST" : "GET";
}

function isTrue(value: string | null): boolean {
  return value === "true" || value === "1";
}

function reply(response: ServerResponse, status: number, body: JsonObject): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

function failure(code: number, error: unknown): JsonObject {
  const reason = code === 404 ? "NotFound" : "InternalError";
  return { kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message: `${error}` };
}
