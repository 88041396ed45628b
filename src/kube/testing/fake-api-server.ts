import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { writeCertificate } from "./certificates.ts";
import { HttpWatch } from "./http-watch.ts";
import { failure, ObjectStore, placeOf } from "./object-store.ts";
import { parseBody } from "./request-body.ts";
import type { SeenRequest } from "./requests.ts";
import { play, type Script, send } from "./responses.ts";

/** How every request fails: an error is the answer, none comes, or the server does not listen. */
export type Outage = "500" | "hang" | "gone";

/** After so many, the server forgets earlier versions, as etcd does after five minutes. */
const rememberedVersions = 10_000;

/**
 * An API server that does what Plexus and Multus ask of one: LIST in pages, WATCH with bookmarks, GET, merge PATCH
 * with a UID precondition, PUT of a status, POST. Failures are scripted, or everything fails until {@link recover}.
 */
export class FakeApiServer extends ObjectStore implements AsyncDisposable {
  readonly seen: SeenRequest[] = [];
  /** Called with every request; replace it where `seen` would grow for too long. */
  onRequest = (request: SeenRequest): unknown => this.seen.push(request);
  /** Collections whose created objects are not kept. */
  readonly forgotten = new Set<string>();
  /** When set, only requests with this bearer token are let in. */
  token: string | undefined;
  readonly #server: http.Server;
  readonly #certificate: string | undefined;
  readonly #scratch: string;
  readonly #sockets = new Set<Socket>();
  readonly #halfOpen = new WeakSet<Socket>();
  readonly #scripts: Script[] = [];
  #port = 0;
  #outage: Script | undefined;

  private constructor(tlsDir: string | undefined) {
    super();
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
    return this.#watches(collection).length;
  }

  /** Objects by `NAMESPACE/NAME`. Watches are not told of what is changed here directly. */
  objects(collection: string): Map<string, JsonObject> {
    return this.collection(collection).objects;
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
    this.collection(collection).put(object);
  }

  /** Deletes an object and sends the event to the watches. */
  delete(collection: string, name: string): void {
    this.collection(collection).remove(name);
  }

  /** Writes bytes into every watch of a collection. */
  emit(collection: string, bytes: string | Uint8Array): void {
    for (const watch of this.#watches(collection)) watch.write(bytes);
  }

  bookmark(collection: string): void {
    for (const watch of this.#watches(collection)) watch.bookmark();
  }

  /** Restarts, as far as a client can see: connections are reset and old versions are not kept. */
  restart(): void {
    this.versions.current += 10;
    this.compact();
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Has the lower versions of an etcd that was restored from a snapshot; connections are reset. */
  restore(): void {
    this.versions.current -= 50;
    this.versions.oldest = 1;
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Ends the watches of a collection: as a server's timeout does, or by closing connections. */
  endWatches(collection: string, how: "end" | "break" = "end"): void {
    for (const watch of this.#watches(collection)) watch[how]();
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
      send(response, 401, failure(401, "Unauthorized", "the token is not valid"));
      return;
    }
    const scripts = [this.#outage ?? [], this.#scripts].flat();
    const script = scripts.find((each) => (each.times ?? 1) > 0 && each.when(request));
    const respond = (): void => this.#respond(request, response);
    if (script !== undefined) play(script, response, respond);
    else respond();
  }

  #respond({ headers, ...seen }: SeenRequest, response: http.ServerResponse): void {
    const { accept = "" } = headers;
    const isPartial = accept.includes("as=PartialObjectMetadata");
    const [path, query] = [decodeURIComponent(seen.path), Object.fromEntries(seen.query)];
    const request = { ...seen, path, query, isPartial };
    const { resource } = placeOf(path);
    const { current, oldest } = this.versions;
    if (current > oldest + rememberedVersions) this.compact();
    if (query.watch === "true" && !this.absent.has(resource)) {
      // As the real one does: an event that cannot be made a list ends the watch, without a word.
      if (accept.includes("as=PartialObjectMetadataList")) send(response, 200, { body: "" });
      else new HttpWatch(this.collection(resource), request, response);
    } else if (seen.method === "POST" && this.forgotten.has(resource)) {
      send(response, 201, { body: seen.body });
    } else {
      const { status, body } = this.answer(request);
      send(response, status, { body });
    }
  }

  #watches(collection: string): HttpWatch[] {
    const { streams } = this.collection(collection);
    return [...streams].filter((stream) => stream instanceof HttpWatch);
  }
}
