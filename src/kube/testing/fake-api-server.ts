import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import {
  asViewed,
  exactVersion,
  isSelected,
  limitOf,
  listType,
  mergePatch,
  metadataOf,
  namesOf,
  typeOf,
} from "./api-objects.ts";
import { writeCertificate } from "./certificates.ts";
import { parseBody } from "./request-body.ts";
import type { SeenRequest } from "./requests.ts";
import { play, type Script, send, sendStatus, statusObject } from "./responses.ts";

/** What is asked of a collection, and where the answer goes. */
interface Exchange {
  readonly collection: string;
  readonly request: SeenRequest;
  readonly response: http.ServerResponse;
}

/** How every request fails: an error is the answer, none comes, or the server does not listen. */
export type Outage = "500" | "hang" | "gone";

/**
 * An API server that does what Plexus and Multus ask of one: LIST in pages, WATCH with bookmarks, GET, merge PATCH
 * with a UID precondition, PUT of a status, POST. Failures are scripted, or everything fails until {@link recover}.
 */
export class FakeApiServer implements AsyncDisposable {
  readonly seen: SeenRequest[] = [];
  /** Called with every request; replace it where `seen` would grow for too long. */
  onRequest = (request: SeenRequest): unknown => this.seen.push(request);
  /** Objects by `<collection>/<namespace>/<name>`; collections are `pods`, `network-attachment-definitions`, `events`. */
  readonly objects = new Map<string, JsonObject>();
  /** Objects per page of a LIST, if its limit is not smaller. */
  pageSize = Number.POSITIVE_INFINITY;
  /** Collections that answer 404: their CRD is not there. */
  readonly absent = new Set<string>();
  /** Collections whose created objects are not kept. */
  readonly forgotten = new Set<string>();
  /** When set, only requests with this bearer token are let in. */
  token: string | undefined;
  readonly #server: http.Server;
  readonly #certificate: string | undefined;
  readonly #scratch: string;
  readonly #sockets = new Set<Socket>();
  readonly #halfOpen = new WeakSet<Socket>();
  readonly #watches = new Set<Exchange>();
  readonly #scripts: Script[] = [];
  #version = 100;
  /** Watches from before this version are refused. */
  #oldest = 0;
  #port = 0;
  #outage: Script | undefined;

  private constructor(tlsDir: string | undefined) {
    const serve: http.RequestListener = (request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    };
    this.#scratch = tlsDir ?? mkdtempSync(join(tmpdir(), "plexus-kube-"));
    if (tlsDir === undefined) this.#server = http.createServer(serve);
    else {
      const [certFile, keyFile] = [join(tlsDir, "api.crt"), join(tlsDir, "api.key")];
      writeCertificate("kubernetes", { certFile, keyFile });
      this.#certificate = readFileSync(certFile, "utf8");
      this.#server = https.createServer(
        { cert: this.#certificate, key: readFileSync(keyFile) },
        serve,
      );
    }
    // The real one closes idle connections after minutes, not after Node's five seconds.
    this.#server.keepAliveTimeout = 120_000;
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  /** Serves HTTP, or HTTPS with a certificate that is made in `tlsDir`; kubeconfigs are there too. */
  static async start({ tlsDir }: { tlsDir?: string } = {}): Promise<FakeApiServer> {
    const fake = new FakeApiServer(tlsDir);
    await fake.#listen();
    return fake;
  }

  get url(): string {
    return `${this.#certificate === undefined ? "http" : "https"}://127.0.0.1:${this.#port}`;
  }

  /** How many watches of a collection are open. */
  watching(collection: string): number {
    return [...this.#watches].filter((watch) => watch.collection === collection).length;
  }

  /** Writes a kubeconfig file for this server; `user` holds the user's keys. */
  async kubeconfig(user: JsonObject = {}, cluster: JsonObject = {}): Promise<string> {
    const suffix = user.token === undefined ? "" : `-${user.token}`;
    const path = join(this.#scratch, `kubeconfig${suffix}`);
    const ca = this.#certificate && Buffer.from(this.#certificate).toString("base64");
    const own = omitUndefined({ server: this.url, "certificate-authority-data": ca });
    const named = { name: "test", cluster: { ...own, ...cluster } };
    const config = {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "test",
      clusters: [named],
      users: [{ name: "test", user }],
      contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
    };
    writeFileSync(path, JSON.stringify(config));
    return path;
  }

  /** Writes the files that the kubelet puts into a container, and returns the variables that go with them. */
  serviceAccount(dir: string, token: string): Record<string, string> {
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, "token"), token);
    writeFileSync(join(dir, "ca.crt"), this.#certificate ?? "");
    return { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: `${this.#port}` };
  }

  /** Fails from now on, until {@link recover}. */
  async fail(how: Outage): Promise<void> {
    this.#outage = { when: () => true, times: Infinity, answer: how === "500" ? 500 : "hang" };
    if (how !== "gone") return;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.resetAndDestroy();
    await closed;
  }

  /** Works again, on the same port. Requests that hang are never answered: their connections are reset. */
  async recover(): Promise<void> {
    if (this.#outage?.answer === "hang")
      for (const socket of this.#sockets) socket.resetAndDestroy();
    this.#outage = undefined;
    if (!this.#server.listening) await this.#listen();
  }

  /** Requests on the present connections are never answered. */
  breakConnections(): void {
    for (const socket of this.#sockets) this.#halfOpen.add(socket);
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
    const metadata = { ...metadataOf(object ?? {}), resourceVersion: `${this.#version}` };
    const last = { ...object, metadata };
    if (options.silently !== true) this.#broadcast(collection, "DELETED", last);
  }

  /** Writes a line into every watch of a collection. */
  emit(collection: string, line: string | Uint8Array): void {
    for (const watch of this.#watches)
      if (watch.collection === collection) watch.response.write(line);
  }

  bookmark(collection: string): void {
    const metadata = { resourceVersion: `${this.#version}` };
    const object = { ...typeOf(collection), metadata };
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
    rmSync(this.#scratch, { recursive: true, force: true });
  }

  async #listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  async #serve(incoming: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? "/", "http://fake");
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const request: SeenRequest = {
      method: incoming.method ?? "",
      path: url.pathname,
      query: url.searchParams,
      headers: incoming.headers,
      body: parseBody(Buffer.concat(chunks)),
    };
    this.onRequest(request);
    if (this.#halfOpen.has(incoming.socket)) return;
    if (this.token !== undefined && incoming.headers.authorization !== `Bearer ${this.token}`) {
      sendStatus(response, 401, "Unauthorized");
      return;
    }
    const scripts = [this.#outage ?? [], this.#scripts].flat();
    const script = scripts.find((each) => (each.times ?? 1) > 0 && each.when(request));
    const answer = (): void => this.#answer(request, response);
    if (script !== undefined) play(script, response, answer);
    else answer();
  }

  #answer(request: SeenRequest, response: http.ServerResponse): void {
    const parts = request.path.split("/").filter((part) => part !== "");
    const rest = parts.map(decodeURIComponent).slice(parts[0] === "api" ? 2 : 3);
    const namespace = rest[0] === "namespaces" ? rest[1] : "";
    const [collection = "", name] = rest[0] === "namespaces" ? rest.slice(2) : rest;
    const exchange = { collection, request, response };
    const object = this.objects.get(`${collection}/${namespace}/${name}`);
    if (this.absent.has(collection)) sendStatus(response, 404, "NotFound");
    else if (request.query.get("watch") === "true") this.#watch(exchange);
    else if (request.method === "POST") this.#create(exchange);
    else if (name === undefined) this.#list(exchange);
    else if (object === undefined) sendStatus(response, 404, "NotFound");
    else if (request.method === "PATCH" || request.method === "PUT") this.#patch(exchange, object);
    else send(response, 200, { body: asViewed(object, request) });
  }

  #list({ collection, request, response }: Exchange): void {
    const { query } = request;
    const all = this.#selected(collection, query);
    const from = Number(query.get("continue") ?? 0);
    const items = all.slice(from, from + Math.min(this.pageSize, limitOf(query)));
    const next = from + items.length < all.length ? `${from + items.length}` : undefined;
    const resourceVersion = exactVersion(query) ?? `${this.#version}`;
    const metadata = omitUndefined({ resourceVersion, continue: next });
    const views = items.map((object) => asViewed(object, request));
    send(response, 200, { body: { ...listType(collection, request), metadata, items: views } });
  }

  #watch(watch: Exchange): void {
    const { request, response } = watch;
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    if (Number(request.query.get("resourceVersion")) < this.#oldest) {
      const object = statusObject(410, "Expired");
      response.end(`${JSON.stringify({ type: "ERROR", object })}\n`);
      return;
    }
    // As the real one does: an event that cannot be made a list ends the watch, without a word.
    if (request.headers.accept?.includes("as=PartialObjectMetadataList")) {
      response.end();
      return;
    }
    if (request.query.get("sendInitialEvents") === "true") this.#sendAll(watch);
    this.#watches.add(watch);
    response.on("close", () => this.#watches.delete(watch));
  }

  /** A streamed list: every object, and then a bookmark that says so. */
  #sendAll({ collection, request, response }: Exchange): void {
    const events = this.#selected(collection, request.query).map((object) => ({
      type: "ADDED",
      object: asViewed(object, request),
    }));
    const annotations = { "k8s.io/initial-events-end": "true" };
    const metadata = { resourceVersion: `${this.#version}`, annotations };
    const end = { type: "BOOKMARK", object: { ...typeOf(collection), metadata } };
    for (const event of [...events, end]) response.write(`${JSON.stringify(event)}\n`);
  }

  #create({ collection, request, response }: Exchange): void {
    const object = request.body as JsonObject;
    if (!this.forgotten.has(collection)) this.put(collection, object);
    send(response, 201, { body: object });
  }

  #patch({ collection, request, response }: Exchange, object: JsonObject): void {
    const patch = request.body as JsonObject;
    const { uid } = metadataOf(patch);
    if (uid !== undefined && uid !== metadataOf(object).uid) {
      sendStatus(response, 409, "Conflict");
      return;
    }
    const patched = mergePatch(object, patch) as JsonObject;
    this.put(collection, patched);
    send(response, 200, { body: patched });
  }

  #store(key: string, object: JsonObject): void {
    this.#version += 1;
    const metadata = { ...metadataOf(object), resourceVersion: `${this.#version}` };
    this.objects.set(key, { ...object, metadata });
  }

  #broadcast(collection: string, type: string, object: JsonObject): void {
    for (const { collection: watched, request, response } of this.#watches) {
      if (watched !== collection || !isSelected(object, request.query)) continue;
      response.write(`${JSON.stringify({ type, object: asViewed(object, request) })}\n`);
    }
  }

  #selected(collection: string, query: URLSearchParams): JsonObject[] {
    const all = [...this.objects].filter(([key]) => key.startsWith(`${collection}/`));
    return all.map(([, object]) => object).filter((object) => isSelected(object, query));
  }
}
