import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { exactVersion, isSelected, limitOf } from "./list-query.ts";
import { mergePatch, metadataOf, namesOf } from "./merge-patch.ts";
import type { SeenRequest } from "./requests.ts";
import { play, type Script, send, sendStatus, statusObject } from "./responses.ts";

interface OpenWatch {
  readonly collection: string;
  readonly query: URLSearchParams;
  readonly response: ServerResponse;
}

/**
 * An API server that does what the adapter asks of one: LIST in pages, WATCH with bookmarks, GET,
 * merge PATCH with a UID precondition, POST. Failures are scripted.
 */
export class FakeApiServer implements AsyncDisposable {
  readonly seen: SeenRequest[] = [];
  /** Objects by `<collection>/<namespace>/<name>`; collections are `pods`, `network-attachment-definitions`, `events`. */
  readonly objects = new Map<string, JsonObject>();
  /** Objects per page of a LIST, if its limit is not smaller. */
  pageSize = Number.POSITIVE_INFINITY;
  /** Collections that answer 404: their CRD is not there. */
  readonly absent = new Set<string>();
  /** When set, only requests with this bearer token are let in. */
  token: string | undefined;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #watches = new Set<OpenWatch>();
  readonly #scripts: Script[] = [];
  #version = 100;
  /** Watches from before this version are refused. */
  #oldest = 0;
  #scratch = "";

  private constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  static async start(): Promise<FakeApiServer> {
    const fake = new FakeApiServer();
    await new Promise<void>((resolve) => fake.#server.listen(0, "127.0.0.1", resolve));
    fake.#scratch = await mkdtemp(join(tmpdir(), "plexus-kube-"));
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** How many watches of a collection are open. */
  watching(collection: string): number {
    return [...this.#watches].filter((watch) => watch.collection === collection).length;
  }

  /** A kubeconfig file for this server; `user` holds the user's keys. */
  async kubeconfig(user: JsonObject = {}, cluster: JsonObject = {}): Promise<string> {
    const path = join(this.#scratch, "kubeconfig");
    const named = { name: "test", cluster: { server: this.url, ...cluster } };
    const config = {
      "current-context": "test",
      clusters: [named],
      users: [{ name: "test", user }],
      contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
    };
    await writeFile(path, JSON.stringify(config));
    return path;
  }

  /** Does something else with the next requests that match. */
  script(script: Script): void {
    this.#scripts.push(script);
  }

  /** Creates or replaces an object and sends the event to the watches. */
  put(collection: string, object: JsonObject): void {
    const { namespace, name } = namesOf(object);
    const key = `${collection}/${namespace}/${name}`;
    const type = this.objects.has(key) ? "MODIFIED" : "ADDED";
    this.#store(key, object);
    this.#broadcast(collection, type, this.objects.get(key) ?? {});
  }

  /** Deletes an object; with `silently` no watch gets the event, as when they are all broken. */
  delete(collection: string, name: string, options: { silently?: boolean } = {}): void {
    const key = `${collection}/${name}`;
    const object = this.objects.get(key);
    this.objects.delete(key);
    this.#version += 1;
    const last = {
      ...object,
      metadata: { ...metadataOf(object ?? {}), resourceVersion: `${this.#version}` },
    };
    if (options.silently !== true) this.#broadcast(collection, "DELETED", last);
  }

  /** Writes a line into every watch of a collection. */
  emit(collection: string, line: string | Uint8Array): void {
    for (const watch of this.#watches)
      if (watch.collection === collection) watch.response.write(line);
  }

  bookmark(collection: string): void {
    const object = { metadata: { resourceVersion: `${this.#version}` } };
    this.emit(collection, `${JSON.stringify({ type: "BOOKMARK", object })}\n`);
  }

  /** Restarts, as far as a client can see: connections are reset and old versions are not kept. */
  restart(): void {
    this.#version += 10;
    this.#oldest = this.#version;
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Ends the watches of a collection: as a server's timeout does, or by closing connections. */
  endWatches(collection: string, how: "end" | "reset" = "end"): void {
    for (const watch of this.#watches) {
      if (watch.collection !== collection) continue;
      if (how === "end") watch.response.end();
      else watch.response.socket?.resetAndDestroy();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    await rm(this.#scratch, { recursive: true, force: true });
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? "/", "http://fake");
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const request: SeenRequest = {
      method: incoming.method ?? "",
      path: url.pathname,
      query: url.searchParams,
      headers: incoming.headers,
      body: text === "" ? undefined : JSON.parse(text),
    };
    this.seen.push(request);
    if (this.token !== undefined && incoming.headers.authorization !== `Bearer ${this.token}`) {
      sendStatus(response, 401, "Unauthorized");
      return;
    }
    const script = this.#scripts.find((each) => (each.times ?? 1) > 0 && each.when(request));
    if (script !== undefined) play(script, response);
    else this.#answer(request, response);
  }

  #answer(request: SeenRequest, response: ServerResponse): void {
    const parts = request.path
      .split("/")
      .filter((part) => part !== "")
      .map(decodeURIComponent);
    const rest = parts.slice(parts[0] === "api" ? 2 : 3);
    const [namespace, tail] =
      rest[0] === "namespaces" ? [rest[1], rest.slice(2)] : [undefined, rest];
    const [collection = "", name] = tail;
    const to = { collection, response };
    const object = this.objects.get(`${collection}/${namespace ?? ""}/${name}`);
    if (this.absent.has(collection)) sendStatus(response, 404, "NotFound");
    else if (request.query.get("watch") === "true") this.#watch(request, to);
    else if (request.method === "POST") this.#create(request, to);
    else if (name === undefined) this.#list(request, to);
    else if (object === undefined) sendStatus(response, 404, "NotFound");
    else if (request.method === "PATCH") this.#patch(request, { ...to, object });
    else send(response, 200, { body: object });
  }

  #list(request: SeenRequest, to: { collection: string; response: ServerResponse }): void {
    const all = this.#selected(to.collection, request.query);
    const from = Number(request.query.get("continue") ?? 0);
    const items = all.slice(from, from + Math.min(this.pageSize, limitOf(request.query)));
    const next = from + items.length < all.length ? `${from + items.length}` : undefined;
    const version = exactVersion(request.query) ?? `${this.#version}`;
    const metadata = omitUndefined({ resourceVersion: version, continue: next });
    send(to.response, 200, { body: { kind: "List", metadata, items } });
  }

  #watch(request: SeenRequest, to: { collection: string; response: ServerResponse }): void {
    to.response.writeHead(200, { "content-type": "application/json" });
    to.response.flushHeaders();
    if (Number(request.query.get("resourceVersion")) < this.#oldest) {
      const object = statusObject(410, "Expired");
      to.response.end(`${JSON.stringify({ type: "ERROR", object })}\n`);
      return;
    }
    const watch = { collection: to.collection, query: request.query, response: to.response };
    // As the real one does: an event that cannot be made a list ends the watch, without a word.
    if (request.headers.accept?.includes("as=PartialObjectMetadataList")) {
      to.response.end();
      return;
    }
    this.#watches.add(watch);
    to.response.on("close", () => this.#watches.delete(watch));
  }

  #create(request: SeenRequest, to: { collection: string; response: ServerResponse }): void {
    const object = request.body as JsonObject;
    this.put(to.collection, object);
    send(to.response, 201, { body: object });
  }

  #patch(
    request: SeenRequest,
    to: { collection: string; object: JsonObject; response: ServerResponse },
  ): void {
    const patch = request.body as JsonObject;
    const { uid } = metadataOf(patch);
    if (uid !== undefined && uid !== metadataOf(to.object).uid) {
      sendStatus(to.response, 409, "Conflict");
      return;
    }
    const patched = mergePatch(to.object, patch) as JsonObject;
    this.put(to.collection, patched);
    send(to.response, 200, { body: patched });
  }

  #store(key: string, object: JsonObject): void {
    this.#version += 1;
    const metadata = { ...metadataOf(object), resourceVersion: `${this.#version}` };
    this.objects.set(key, { ...object, metadata });
  }

  #broadcast(collection: string, type: string, object: JsonObject): void {
    for (const watch of this.#watches) {
      if (watch.collection !== collection || !isSelected(object, watch.query)) continue;
      watch.response.write(`${JSON.stringify({ type, object })}\n`);
    }
  }

  #selected(collection: string, query: URLSearchParams): JsonObject[] {
    const all = [...this.objects].filter(([key]) => key.startsWith(`${collection}/`));
    return all.map(([, object]) => object).filter((object) => isSelected(object, query));
  }
}
