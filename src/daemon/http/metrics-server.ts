import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { createServer, type Server } from "node:https";
import type { Socket } from "node:net";
import { hostname } from "node:os";
import { join } from "node:path";
import type { Logger } from "#engine/ports/logger.ts";
import type { AccessReview } from "#kube/access-review.ts";
import { errorMessage } from "#lib/error-message.ts";
import { isAbsent } from "#lib/files/is-absent.ts";
import { limitConnections } from "./connection-limit.ts";
import { type HealthServer, listen, type Page, pages, timeouts } from "./http-server.ts";
import type { Metrics } from "./metrics.ts";
import { limitPerAddress, type MetricsAccess, reviewedAccess } from "./reviewed-access.ts";
import { selfSigned } from "./self-signed.ts";

/** Enough for several Prometheus servers. */
const maxConnections = 32;

/** Per address: a TLS handshake takes CPU time of the process that serves pods. */
const connectionsOfAddress = { burst: 20, tokensPerSecond: 2 };

/**
 * Where a Secret of type kubernetes.io/tls may be mounted, of cert-manager or a service CA. Without
 * one, the certificate is self-signed.
 */
const mountedAt = "/etc/plexus-metrics-tls";
/** The kubelet updates mounted Secrets every minute. */
const renewMs = 60_000;

/**
 * Serves /metrics over TLS to bearers of tokens that the API server authorizes to `get /metrics`.
 * @throws Error when the address cannot be used
 */
export async function startMetricsServer(options: {
  /** Without a host: every address of the node. */
  readonly address: { readonly host?: string; readonly port: number };
  readonly metrics: Pick<Metrics, "render">;
  readonly review: AccessReview;
  readonly logger: Logger;
  /** @default {@link mountedAt} */
  readonly certificateDir?: string;
  /** Between two looks at the mounted certificate. @default {@link renewMs} */
  readonly renewMs?: number;
}): Promise<HealthServer> {
  const { metrics, logger } = options;
  const access = reviewedAccess(options.review);
  const answer = async ({ method, url, headers, socket }: IncomingMessage): Promise<Page> => {
    if (method !== "GET") return { status: 405, text: "only GET\n" };
    if (url?.split("?")[0] !== "/metrics") return { status: 404, text: "/metrics\n" };
    const verdict = await access(headers.authorization, socket.remoteAddress ?? "");
    if (verdict !== "allowed") return refusals[verdict];
    return { status: 200, ...(await metrics.render()) };
  };
  const server = createServer({ ...timeouts, ...selfSigned(hostname()) }, pages(answer));
  // Closes connections of peers that open too many, before the handshake.
  const isAllowed = limitPerAddress(connectionsOfAddress);
  server.on("connection", (socket: Socket) => {
    if (!isAllowed(socket.remoteAddress ?? "")) socket.destroy();
  });
  limitConnections(server, maxConnections);
  await followCertificate(server, options);
  const running = await listen(server, { ...options.address, what: "metrics" });
  logger.info(running.address, "metrics are served over TLS to callers with the right");
  return running;
}

/** Uses the mounted certificate now and whenever it changes, until the server closes. */
async function followCertificate(
  server: Server,
  options: Pick<Parameters<typeof startMetricsServer>[0], "certificateDir" | "logger" | "renewMs">,
): Promise<void> {
  const { certificateDir: dir = mountedAt, logger } = options;
  let [current, problem] = ["", ""];
  const look = async (): Promise<void> => {
    try {
      const read = (name: string) => readFile(join(dir, name), "utf8");
      const [cert, key] = await Promise.all([read("tls.crt"), read("tls.key")]);
      if (cert + key === current) return;
      if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
        throw new Error("tls.key is not the key of tls.crt");
      server.setSecureContext({ cert, key });
      [current, problem] = [cert + key, ""];
      logger.info({ dir }, "the metrics have the mounted certificate");
    } catch (err) {
      if (isAbsent(err) || errorMessage(err) === problem) return;
      problem = errorMessage(err);
      logger.error({ err, dir }, "the mounted certificate cannot be used; the previous one stays");
    }
  };
  await look();
  const timer = setInterval(look, options.renewMs ?? renewMs).unref();
  server.once("close", () => clearInterval(timer));
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
