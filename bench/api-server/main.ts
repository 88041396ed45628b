import type { SeenRequest } from "#kube/testing/requests.ts";
import type { JsonObject } from "#lib/json.ts";
import { startApiServer } from "../../e2e/support/api-server.ts";

/**
 * The API server of the benchmark. It is a separate process, so that its CPU time is not counted as a contender's. It
 * counts requests by their token, which is the contender's name. Its parent controls it by messages (client.ts).
 */
export type Order =
  | { readonly kind: "replace"; readonly collection: Collection; readonly objects: JsonObject[] }
  | { readonly kind: "serviceAccount"; readonly dir: string; readonly token: string }
  | { readonly kind: "counts" }
  | { readonly kind: "pod"; readonly key: string };

/** The first message to the parent: a kubeconfig for each token. */
export interface Ready {
  readonly kubeconfigs: Readonly<Record<string, string>>;
}

export type Collection = "pods" | "network-attachment-definitions";

/** Requests of each contender: `PATCH pods` → how many. */
export type Counts = Record<string, Record<string, number>>;

const [dir = "", ...tokens] = process.argv.slice(2);
const counts: Counts = {};
const api = await startApiServer(dir);
api.onRequest = count;
// As the real one does every minute, so that clients know a quiet watch from a dead one.
setInterval(() => {
  for (const collection of ["pods", "network-attachment-definitions"]) api.bookmark(collection);
}, 60_000).unref();

const kubeconfigs = tokens.map(async (token) => [token, await api.kubeconfig({ token })]);
process.on("message", ({ id, order }: { id: number; order: Order }) => {
  process.send?.({ id, answer: carryOut(order) });
});
process.on("disconnect", () => process.exit(0));
process.send?.({ kubeconfigs: Object.fromEntries(await Promise.all(kubeconfigs)) });

function carryOut(order: Order): unknown {
  if (order.kind === "counts") return counts;
  if (order.kind === "pod") return api.objects("pods").get(order.key) ?? null;
  if (order.kind === "serviceAccount") return api.serviceAccount(order.dir, order.token);
  const { collection, objects } = order;
  for (const key of api.objects(collection).keys()) api.delete(collection, key);
  for (const object of objects) api.put(collection, object);
  return null;
}

function count({ method, path, query, headers }: SeenRequest): void {
  const token = /^Bearer (.*)$/.exec(headers.authorization ?? "")?.[1] ?? "";
  const [, collection = path, name] =
    /\/(pods|events|network-attachment-definitions)(?:\/([^/]+))?/.exec(path) ?? [];
  const read = query.get("watch") === "true" ? "WATCH" : name === undefined ? "LIST" : "GET";
  const what = `${method === "GET" ? read : method} ${collection}`;
  counts[token] ??= {};
  counts[token][what] = (counts[token][what] ?? 0) + 1;
}
