import type { IncomingMessage } from "node:http";
import { createServer } from "node:https";
import type { Socket } from "node:net";
import { hostname } from "node:os";
import type { Logger } from "#engine/ports/logger.ts";
import type { AccessReview } from "#kube/access-review.ts";
import { limitConnections } from "./connection-limit.ts";
import { type HealthServer, listen, type Page, pages, timeouts } from "./http-server.ts";
import type { Metrics } from "./metrics.ts";
import { limitPerAddress, type MetricsAccess, reviewedAccess } from "./reviewed-access.ts";

/** Enough for several Prometheus servers. */
const maxConnections = 32;

/** Per address: a TLS handshake takes CPU time of the process that serves pods. */
const connectionsOfAddress = { burst: 20, tokensPerSecond: 2 };

/** Longer than any plexusd pod lives: nothing renews the certificate. */
const certificateDays = 3650;

/**
 * Serves /metrics over TLS, with a self-signed certificate, to bearers of tokens that the API
 * server authorizes to `get /metrics`. @throws Error when the address cannot be used
 */
export async function startMetricsServer(options: {
  /** Without a host: every address of the node. */
  readonly address: { readonly host?: string; readonly port: number };
  readonly metrics: Pick<Metrics, "render">;
  readonly review: AccessReview;
  readonly logger: Logger;
}): Promise<HealthServer> {
  const { metrics, logger } = options;
  const access = reviewedAccess(options);
  const answer = async ({ method, url, headers, socket }: IncomingMessage): Promise<Page> => {
    if (method !== "GET") return { status: 405, text: "only GET\n" };
    if (url?.split("?")[0] !== "/metrics") return { status: 404, text: "/metrics\n" };
    const verdict = await access(headers.authorization, socket.remoteAddress ?? "");
    if (verdict !== "allowed") return refusals[verdict];
    return { status: 200, ...(await metrics.render()) };
  };
  const server = createServer({ ...timeouts, ...(await ownCertificate()) }, pages(answer));
  // Closes connections of peers that open too many, before the handshake.
  const isAllowed = limitPerAddress(connectionsOfAddress);
  server.on("connection", (socket: Socket) => {
    if (!isAllowed(socket.remoteAddress ?? "")) socket.destroy();
  });
  limitConnections(server, maxConnections);
  const running = await listen(server, { ...options.address, what: "metrics" });
  logger.info(running.address, "metrics are served over TLS to callers with the right");
  return running;
}

/** Loads the library only where metrics are served this way. */
async function ownCertificate(): Promise<{ key: string; cert: string }> {
  // In esbuild's bundle, a CommonJS module has only a default export.
  const { default: selfsigned } = await import("selfsigned");
  const name = hostname();
  const made = await selfsigned.generate([{ name: "commonName", value: name }], {
    keyType: "ec",
    curve: "P-256",
    algorithm: "sha256",
    notAfterDate: new Date(Date.now() + certificateDays * 86_400_000),
    extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: name }] }],
  });
  return { key: made.private, cert: made.cert };
}

const refusals: Readonly<Record<Exclude<MetricsAccess, "allowed">, Page>> = {
  unauthenticated: {
    status: 401,
    text: "a bearer token of this cluster is needed\n",
    headers: { "www-authenticate": "Bearer" },
  },
  forbidden: { status: 403, text: "the token's user may not get the path /metrics\n" },
  "too-many": { status: 429, text: "too many unknown tokens\n", headers: { "retry-after": "10" } },
  unknown: { status: 503, text: "the API server cannot be asked whose token it is\n" },
};
