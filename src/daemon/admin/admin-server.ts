import { chmod, rename } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import { limitConnections } from "#daemon/http/connection-limit.ts";
import { type Page, send, timeouts } from "#daemon/http/http-server.ts";
import type { PodName } from "#engine/explain/explain-pod.ts";
import type { Explanation } from "#engine/explain/explanation.ts";
import type { Logger } from "#engine/ports.ts";
import { errorMessage } from "#lib/error-message.ts";
import { temporarySocketPath } from "#lib/files/state-files.ts";
import { claimedDevicesPage, type ReportedDevices } from "./claimed-devices.ts";
import type { NodeReport } from "./node-status.ts";

/** Options of {@link startReportServer}. */
export interface ReportServerOptions {
  readonly socketPath: string;
  readonly explain: (pod: PodName) => Promise<Explanation>;
  readonly claimedDevices: (pod: PodName) => Promise<ReportedDevices>;
  readonly nodeReport: () => Promise<NodeReport>;
  readonly logger: Logger;
}

/** A person at a time, or a script. */
const maxConnections = 8;

/**
 * Answers plexusctl on a Unix socket of mode 0600: `GET /node` with a {@link NodeReport}, `GET
 * /pods/NAMESPACE/NAME` with an {@link Explanation}, `GET /pods/NAMESPACE/NAME/claimed-devices` with {@link
 * ReportedDevices}. It changes nothing.
 * @throws Error as of node:net when the socket cannot be made
 */
export async function startReportServer(
  options: ReportServerOptions,
): Promise<{ close(): Promise<void> }> {
  const server = createServer(timeouts, (request, response) => {
    answer(request, options)
      .catch((error: unknown) => {
        options.logger.warn({ err: error }, "a report could not be made");
        return { status: 500, text: errorMessage(error) };
      })
      .then((page) => send(response, page))
      .catch(() => response.destroy());
  });
  limitConnections(server, maxConnections);
  const ownPath = temporarySocketPath(options.socketPath);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(ownPath, resolve);
  });
  await chmod(ownPath, 0o600);
  await rename(ownPath, options.socketPath);
  return {
    close: () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      return closed;
    },
  };
}

async function answer(request: IncomingMessage, options: ReportServerOptions): Promise<Page> {
  if (request.method !== "GET") return { status: 405, text: "only GET" };
  const parts = (request.url ?? "").split("/").slice(1).map(decodeURIComponent);
  if (parts.length === 1 && parts[0] === "node") return json(await options.nodeReport());
  const [pods, namespace = "", name = "", ...rest] = parts;
  const pod = { namespace, name };
  if (pods === "pods" && namespace !== "" && name !== "") {
    if (rest.length === 0) return json(await options.explain(pod));
    if (rest.join("/") === claimedDevicesPage) return json(await options.claimedDevices(pod));
  }
  return { status: 404, text: `/node, /pods/NAMESPACE/NAME or that with /${claimedDevicesPage}` };
}

function json(value: object): Page {
  return { status: 200, text: JSON.stringify(value), contentType: "application/json" };
}
