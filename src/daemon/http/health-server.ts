import { createServer, type IncomingMessage } from "node:http";
import { limitConnections } from "./connection-limit.ts";
import { type HealthServer, listen, type Page, pages, timeouts } from "./http-server.ts";
import type { Metrics } from "./metrics.ts";

interface HealthServerOptions {
  readonly address: { readonly host: string; readonly port: number };
  /** Why plexusd is not ready, a sentence each; empty when it is. */
  readonly readiness: () => readonly string[];
  readonly metrics: Pick<Metrics, "render">;
}

/** Far more than a kubelet, a Prometheus server and a person need. */
const maxConnections = 64;

/** Serves /healthz, /readyz (with reasons) and /metrics. @throws Error when it cannot listen */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const answer = pages((request) => pageOf(request, options));
  const server = createServer(timeouts, answer);
  limitConnections(server, maxConnections);
  return listen(server, { ...options.address, what: "health and metrics" });
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

/** The kubelet's probes get it by the admin socket, as another process may have the port. */
export function readyPage(reasons: readonly string[]): Page {
  if (reasons.length === 0) return { status: 200, text: "ok\n" };
  return { status: 503, text: reasons.map((reason) => `not ready: ${reason}\n`).join("") };
}
