import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import { execa } from "execa";
import { statusAnnotation } from "../../support/status-annotation.ts";

/** A Kubernetes object; only what is looked at here is typed. */
export interface KubeObject {
  readonly [key: string]: unknown;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly [key: string]: unknown;
  };
}

interface Watch {
  readonly collection: string;
  readonly response: ServerResponse;
}

interface Target {
  readonly collection: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
}

const statusKey = "k8s.v1.cni.cncf.io/network-status";
/** Anything is taken for a token, but Multus's daemon wants one. */
const token = "chaos";

/**
 * An API server of pods and NetworkAttachmentDefinitions, as much of one as plexusd and Multus ask
 * for, that can fail: `500` answers everything so, `hang` never answers, `gone` does not listen.
 */
export class KubeApi {
  #mode = "ok";
  readonly #objects = new Map<string, KubeObject>();
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #watches = new Set<Watch>();
  readonly #certificate: string;
  #version = 1000;
  #port = 0;

  private constructor(certificate: string, key: string) {
    this.#certificate = certificate;
    this.#server = createServer({ cert: certificate, key }, (request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
    this.#server.keepAliveTimeout = 60_000;
    this.#server.on("connection", (stream) => {
      const socket = stream as Socket;
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  /** Makes a certificate in the directory and listens on the loopback interface. */
  static async start(dir: string): Promise<KubeApi> {
    const [certificate, key] = [join(dir, "api.crt"), join(dir, "api.key")];
    await execa("openssl", [
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
      ...["-days", "2", "-subj", "/CN=plexus-chaos", "-addext", "subjectAltName=IP:127.0.0.1"],
      ...["-keyout", key, "-out", certificate],
    ]);
    const api = new KubeApi(readFileSync(certificate, "utf8"), readFileSync(key, "utf8"));
    await api.listen();
    return api;
  }

  /** Listens, on the port of before when there was one. */
  async listen(): Promise<void> {
    if (this.#server.listening) return;
    await new Promise<void>((resolve) => this.#server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Fails from now on: answers `500`, lets everything `hang`, or is `gone`. */
  async fail(how: string): Promise<void> {
    this.#mode = how;
    if (how === "gone") await this.#leave();
  }

  /** Works again; what hung was never answered. */
  async recover(): Promise<void> {
    if (this.#mode === "hang") for (const socket of this.#sockets) socket.resetAndDestroy();
    this.#mode = "ok";
    await this.listen();
  }

  /** Stops listening and resets every connection. */
  async #leave(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.resetAndDestroy();
    await closed;
  }

  /** A kubeconfig for it. */
  kubeconfig(): object {
    const cluster = {
      server: `https://127.0.0.1:${this.#port}`,
      "certificate-authority-data": Buffer.from(this.#certificate).toString("base64"),
    };
    return {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "chaos",
      clusters: [{ name: "chaos", cluster }],
      users: [{ name: "chaos", user: { token } }],
      contexts: [{ name: "chaos", context: { cluster: "chaos", user: "chaos" } }],
    };
  }

  /** Writes what the kubelet puts into a container, and returns the variables that go with it. */
  serviceAccount(dir: string): Record<string, string> {
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, "token"), token);
    writeFileSync(join(dir, "ca.crt"), this.#certificate);
    return { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: `${this.#port}` };
  }

  put(collection: string, object: KubeObject): void {
    const key = keyOf(collection, object.metadata);
    const type = this.#objects.has(key) ? "MODIFIED" : "ADDED";
    this.#store(collection, object);
    this.#broadcast(collection, type, this.#objects.get(key));
  }

  delete(collection: string, metadata: { namespace: string; name: string }): void {
    const object = this.#objects.get(keyOf(collection, metadata));
    this.#objects.delete(keyOf(collection, metadata));
    if (object !== undefined) this.#broadcast(collection, "DELETED", object);
  }

  #store(collection: string, object: KubeObject): KubeObject {
    const metadata = { ...object.metadata, resourceVersion: `${++this.#version}` };
    const stored = { ...object, metadata };
    this.#objects.set(keyOf(collection, metadata), stored);
    return stored;
  }

  #broadcast(collection: string, type: string, object: KubeObject | undefined): void {
    for (const watch of this.#watches)
      if (watch.collection === collection)
        watch.response.write(`${JSON.stringify({ type, object })}\n`);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (this.#mode === "hang") return;
    const url = new URL(request.url ?? "/", "http://chaos");
    const target = targetOf(url.pathname);
    const body = Buffer.concat(chunks);
    if (this.#mode === "500") fail(response, 500, "InternalError");
    else if (request.method === "GET") this.#read(url.searchParams, target, response);
    else this.#write(request.method ?? "", target, { body, response });
  }

  #read(query: URLSearchParams, target: Target, response: ServerResponse): void {
    const { collection, namespace, name } = target;
    // A client that asks for a streamed list falls back to a plain one.
    if (query.get("sendInitialEvents") === "true") fail(response, 422, "Invalid");
    else if (query.get("watch") === "true") this.#watch(collection, response);
    else if (name === undefined) send(response, 200, this.#list(collection, namespace));
    else sendFound(response, this.#objects.get(`${collection}/${namespace}/${name}`));
  }

  #list(collection: string, namespace: string | undefined): object {
    const prefix = [collection, ...(namespace === undefined ? [] : [namespace]), ""].join("/");
    const found = [...this.#objects].filter(([key]) => key.startsWith(prefix));
    const type =
      collection === "pods"
        ? { kind: "PodList", apiVersion: "v1" }
        : { kind: "NetworkAttachmentDefinitionList", apiVersion: "k8s.cni.cncf.io/v1" };
    const metadata = { resourceVersion: `${this.#version}` };
    return { ...type, metadata, items: found.map(([, object]) => object) };
  }

  #watch(collection: string, response: ServerResponse): void {
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    const watch = { collection, response };
    this.#watches.add(watch);
    response.on("close", () => this.#watches.delete(watch));
  }

  #write(
    method: string,
    { collection, namespace, name }: Target,
    call: { body: Buffer; response: ServerResponse },
  ): void {
    const object = this.#objects.get(`${collection}/${namespace}/${name}`);
    // Events are all that is created.
    if (method === "POST") send(call.response, 201, { kind: "Event", apiVersion: "v1" });
    else sendFound(call.response, object && this.#annotate(collection, object, call.body));
  }

  /** PATCH and PUT alike: the network status is all that is written. */
  #annotate(collection: string, object: KubeObject, body: Buffer): KubeObject {
    const status = statusAnnotation(body);
    const annotations = {
      ...annotationsOf(object),
      ...(status !== undefined && { [statusKey]: status }),
    };
    const metadata = { ...object.metadata, annotations };
    const stored = this.#store(collection, { ...object, metadata });
    this.#broadcast(collection, "MODIFIED", stored);
    return stored;
  }
}

function annotationsOf(object: KubeObject): object {
  return (object.metadata?.annotations as object | undefined) ?? {};
}

function keyOf(collection: string, of: { namespace: string; name: string }): string {
  return `${collection}/${of.namespace}/${of.name}`;
}

/** `/api/v1/…` and `/apis/GROUP/VERSION/…`, with or without a namespace and a subresource. */
function targetOf(path: string): Target {
  const parts = path.split("/").filter((part) => part !== "");
  const rest = parts.slice(parts[0] === "api" ? 2 : 3);
  const [collection = "", name] = rest[0] === "namespaces" ? rest.slice(2) : rest;
  return { collection, name, namespace: rest[0] === "namespaces" ? rest[1] : undefined };
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

function sendFound(response: ServerResponse, object: KubeObject | undefined): void {
  if (object === undefined) fail(response, 404, "NotFound");
  else send(response, 200, object);
}

function fail(response: ServerResponse, code: number, reason: string): void {
  send(response, code, { kind: "Status", apiVersion: "v1", status: "Failure", code, reason });
}
