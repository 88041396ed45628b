import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { limitConnections } from "./connection-limit.ts";
import type { Metrics } from "./metrics.ts";

/** Options of {@link startHealthServer}. */
export interface HealthServerOptions {
  /** Port 0 takes a free one. */
  readonly address: { readonly host: string; readonly port: number };
  /** Why the daemon is not ready, a sentence each; empty = it is. */
  readonly readiness: () => readonly string[];
  readonly metrics: Pick<Metrics, "render">;
}

/** Health and metrics being served. */
export interface HealthServer {
  readonly address: { readonly host: string; readonly port: number };
  close(): Promise<void>;
}

/** Far more than a kubelet, a Prometheus and a person need at a time. */
const maxConnections = 64;

/** In milliseconds. Node looks for requests that are too slow only every 30 s unless it is asked to. */
const timeouts = {
  headersTimeout: 5000,
  requestTimeout: 5000,
  keepAliveTimeout: 2000,
  connectionsCheckingInterval: 1000,
};

/** An answer of one of the pages. */
interface Page {
  readonly status: number;
  readonly text: string;
  readonly contentType?: string;
}

/**
 * Serves /healthz (the process answers), /readyz (or why not) and /metrics.
 * @throws Error when the address cannot be listened on
 */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const server = createServer(timeouts, (request, response) => {
    pageOf(request, options)
      .catch((error: unknown) => ({ status: 500, text: `${String(error)}\n` }))
      .then((page) => send(response, page))
      .catch(() => response.destroy());
  });
  limitConnections(server, maxConnections);
  const { host, port } = options.address;
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => {
      const where = `${host}:${port}`;
      reject(
        new Error(`cannot serve health and metrics on ${where}: ${error.message}`, {
          cause: error,
        }),
      );
    });
    server.listen(port, host, resolve);
  });
  const bound = server.address() as AddressInfo;
  return {
    address: { host: bound.address, port: bound.port },
    close: () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      return closed;
    },
  };
}

async function pageOf(request: IncomingMessage, options: HealthServerOptions): Promise<Page> {
  if (request.method !== "GET" && request.method !== "HEAD") {
    return { status: 405, text: "only GET and HEAD\n" };
  }
  switch (request.url?.split("?")[0]) {
    case "/healthz":
      return { status: 200, text: "ok\n" };
    case "/readyz":
      return readyPage(options.readiness());
    case "/metrics":
      return { status: 200, ...(await options.metrics.render()) };
    default:
      return { status: 404, text: "/healthz, /readyz or /metrics\n" };
  }
}

function readyPage(reasons: readonly string[]): Page {
  if (reasons.length === 0) return { status: 200, text: "ok\n" };
  return { status: 503, text: reasons.map((reason) => `not ready: ${reason}\n`).join("") };
}

function send(response: ServerResponse, page: Page): void {
  response.writeHead(page.status, {
    "content-type": page.contentType ?? "text/plain; charset=utf-8",
    "content-length": Buffer.byteLength(page.text),
    "x-content-type-options": "nosniff",
  });
  response.end(page.text);
}
