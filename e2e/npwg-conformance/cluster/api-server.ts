import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { asObject, type JsonObject } from "../json.ts";
import type { Values } from "../template.ts";
import { type Cluster, nodeName } from "./cluster.ts";
import {
  isSelected,
  keyOf,
  kinds,
  type Request,
  readRequest,
  send,
  sendStatus,
  viewed,
} from "./request.ts";
import { type Change, mergePatch, Store } from "./store.ts";

interface Watch {
  readonly request: Request;
  readonly response: ServerResponse;
}

const token = "npwg-conformance";

/**
 * A small API server for pods and NetworkAttachmentDefinitions: GET, LIST, WATCH, POST, PUT, merge,
 * strategic-merge and apply PATCH (as JSON), DELETE. It accepts and drops events.
 */
export class ApiServer implements Cluster {
  readonly #server: Server;
  readonly #store = new Store();
  readonly #watches = new Set<Watch>();
  readonly #dir: string;
  readonly #certificate: string;

  private constructor(dir: string) {
    this.#dir = dir;
    const [certFile, keyFile] = [join(dir, "api.crt"), join(dir, "api.key")];
    writeCertificate(certFile, keyFile);
    this.#certificate = readFileSync(certFile, "utf8");
    const tls = { cert: this.#certificate, key: readFileSync(keyFile) };
    this.#server = createServer(tls, (incoming, response) => {
      this.#serve(incoming, response).catch(() => response.destroy());
    });
    this.#store.onChange = (change) => this.#broadcast(change);
  }

  /** Starts a server whose certificate and kubeconfig are in `dir`. Needs openssl. */
  static async start(dir: string): Promise<ApiServer> {
    const server = new ApiServer(dir);
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    writeFileSync(join(dir, "kubeconfig"), JSON.stringify(server.#kubeconfig()));
    await server.apply({ ...kinds.nodes, metadata: { name: nodeName } });
    return server;
  }

  get values(): Values {
    const { port } = this.#server.address() as AddressInfo;
    return {
      ...{ kubeconfig: join(this.#dir, "kubeconfig"), apiHost: "127.0.0.1", apiPort: `${port}` },
      ...{ apiToken: token, apiCertificate: this.#certificate },
    };
  }

  async createNamespace(name: string): Promise<void> {
    await this.apply({ ...kinds.namespaces, metadata: { name } });
  }

  async deleteNamespace(name: string): Promise<void> {
    this.#store.deleteNamespace(name);
    this.#store.delete(`namespaces//${name}`);
  }

  async apply(object: JsonObject): Promise<JsonObject> {
    const key = keyOf(object);
    const existing = this.#store.get(key);
    const { metadata: old } = existing ?? {};
    const metadata = { uid: randomUUID(), ...asObject(old), ...asObject(object.metadata) };
    return this.#store.put(key, { ...object, metadata });
  }

  async getPod(namespace: string, name: string): Promise<JsonObject | undefined> {
    return this.#store.get(`pods/${namespace}/${name}`);
  }

  async delete(object: JsonObject): Promise<void> {
    this.#store.delete(keyOf(object));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  #kubeconfig(): JsonObject {
    const { port } = this.#server.address() as AddressInfo;
    const authority = Buffer.from(this.#certificate).toString("base64");
    const cluster = {
      server: `https://127.0.0.1:${port}`,
      "certificate-authority-data": authority,
    };
    return {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "npwg",
      clusters: [{ name: "npwg", cluster }],
      users: [{ name: "npwg", user: { token } }],
      contexts: [{ name: "npwg", context: { cluster: "npwg", user: "npwg" } }],
    };
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = await readRequest(incoming);
    const { method, collection, namespace, name } = request;
    const key = `${collection}/${namespace}/${name}`;
    const object = this.#store.get(key);
    if (method === "POST") send(response, 201, this.#create(request));
    else if (request.query.get("watch") === "true") this.#watch({ request, response });
    else if (kinds[collection] === undefined) sendStatus(response, 404, "NotFound");
    else if (name === "") this.#list(request, response);
    else if (object === undefined) sendStatus(response, 404, "NotFound");
    else if (method === "GET") send(response, 200, viewed(object, request));
    else if (method === "DELETE") {
      this.#store.delete(key);
      send(response, 200, object);
    } else this.#update({ request, response }, object);
  }

  #create({ collection, namespace, body }: Request): JsonObject {
    if (kinds[collection] === undefined) return body;
    const metadata = { uid: randomUUID(), namespace, ...asObject(body.metadata) };
    const { name } = metadata as { name?: string };
    return this.#store.put(`${collection}/${namespace}/${name}`, { ...body, metadata });
  }

  #update({ request, response }: Watch, object: JsonObject): void {
    const { collection, namespace, name, body } = request;
    const { uid } = asObject(body.metadata);
    if (uid !== undefined && uid !== asObject(object.metadata).uid) {
      sendStatus(response, 409, "Conflict");
      return;
    }
    const merged = asObject(mergePatch(object, body));
    send(response, 200, this.#store.put(`${collection}/${namespace}/${name}`, merged));
  }

  #list(request: Request, response: ServerResponse): void {
    const { collection, namespace } = request;
    const { kind, apiVersion } = kinds[collection] ?? {};
    const items = this.#store
      .list(collection, namespace)
      .filter((each) => isSelected(each, request));
    send(response, 200, {
      ...(request.metadataOnly
        ? { kind: "PartialObjectMetadataList", apiVersion: "meta.k8s.io/v1" }
        : { kind: `${kind}List`, apiVersion }),
      metadata: { resourceVersion: `${this.#store.version}` },
      items: items.map((each) => viewed(each, request)),
    });
  }

  #watch(watch: Watch): void {
    const { request, response } = watch;
    const from = Number(request.query.get("resourceVersion") ?? 0);
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    const isInitial = request.query.get("sendInitialEvents") === "true" || from === 0;
    if (isInitial) this.#sendAll(watch);
    const missed = this.#store.history.filter(({ version }) => !isInitial && version > from);
    for (const change of missed) report(watch, change);
    this.#watches.add(watch);
    response.on("close", () => this.#watches.delete(watch));
  }

  /** Every object, then a bookmark that ends the list. */
  #sendAll(watch: Watch): void {
    const { request, response } = watch;
    const { collection, namespace } = request;
    const { version } = this.#store;
    for (const object of this.#store.list(collection, namespace))
      report(watch, { version, collection, type: "ADDED", object });
    if (request.query.get("sendInitialEvents") !== "true") return;
    const annotations = { "k8s.io/initial-events-end": "true" };
    const metadata = { resourceVersion: `${version}`, annotations };
    const object = viewed({ ...kinds[collection], metadata }, request);
    response.write(`${JSON.stringify({ type: "BOOKMARK", object })}\n`);
  }

  #broadcast(change: Change): void {
    for (const watch of this.#watches) report(watch, change);
  }
}

function report({ request, response }: Watch, { collection, type, object }: Change): void {
  if (collection !== request.collection || !isSelected(object, request)) return;
  response.write(`${JSON.stringify({ type, object: viewed(object, request) })}\n`);
}

/** Equivalent to: `openssl req -x509 …`, for 127.0.0.1, valid for a day. */
function writeCertificate(certFile: string, keyFile: string): void {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const subject = ["-subj", "/CN=npwg-conformance", "-addext", "subjectAltName=IP:127.0.0.1"];
  const files = ["-keyout", keyFile, "-out", certFile];
  const args = ["req", "-x509", "-days", "1", ...key, ...subject, ...files];
  execFileSync("openssl", args, { stdio: "ignore" });
}
