import { createServer, type IncomingMessage } from "node:http";
import { readyPage } from "#daemon/http/health-server.ts";
import { type Page, pages, timeouts } from "#daemon/http/http-server.ts";
import type { PodName } from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { errorMessage } from "#lib/error-message.ts";
import { readBody } from "#lib/net/read-body.ts";
import { UnixSocketServer } from "#lib/net/unix-socket-server.ts";
import type { AdminAnswers } from "./admin-answers.ts";
import { claimedDevicesPage } from "./claimed-devices.ts";
import { failedAddPage, maxFailedAddBytes } from "./failed-add.ts";
import { refreshPage } from "./refreshed.ts";

type ServedAnswers = Pick<
  AdminAnswers,
  "node" | "readiness" | "pod" | "claimedDevices" | "refresh" | "noteFailedAdd"
>;

/** The kubelet's probes, and a person or a script, one request at a time. */
const maxConnections = 8;

/**
 * Serves plexusctl, and reports of plexus-standalone.
 * @throws Error when the socket cannot be made
 */
export function startAdminServer(options: {
  readonly socketPath: string;
  readonly answers: ServedAnswers;
  readonly logger: Logger;
}): Promise<UnixSocketServer> {
  const { socketPath, answers, logger } = options;
  const failed = (error: unknown): Page => {
    if (error instanceof PathError) return { status: 400, text: error.message };
    logger.warn({ err: error }, "an admin request failed");
    return { status: 500, text: errorMessage(error) };
  };
  const serve = pages((request) => answer(request, answers), failed);
  return UnixSocketServer.listen({
    path: socketPath,
    name: "admin socket",
    createServer: () => createServer(timeouts, serve),
    maxConnections,
    logger,
  });
}

async function answer(request: IncomingMessage, answers: ServedAnswers): Promise<Page> {
  const { method, url = "" } = request;
  const [root, namespace = "", name = "", ...page] = segmentsOf(url);
  const pod = { namespace, name };
  if (method === "POST" && page[0] === failedAddPage) {
    answers.noteFailedAdd(pod, (await readBody(request, maxFailedAddBytes)) ?? "");
    return { status: 200, text: "" };
  }
  const isPod = root === "pods" && namespace !== "" && name !== "";
  if (method === "POST") return refreshed(answers, isPod ? pod : undefined, page);
  if (method !== "GET") return { status: 405, text: "only GET and POST" };
  switch (url) {
    case "/healthz":
      return { status: 200, text: "ok" };
    case "/readyz":
      return readyPage(answers.readiness());
    case "/node":
      return json(await answers.node());
  }
  if (isPod && page.length === 0) return json(await answers.pod(pod));
  if (isPod && page.join("/") === claimedDevicesPage)
    return json(await answers.claimedDevices(pod));
  return { status: 404, text: `/node, /pods/NAMESPACE/NAME or that with /${claimedDevicesPage}` };
}

/** @throws PathError if a `%` is not followed by the code of a character */
function segmentsOf(url: string): string[] {
  try {
    return url.split("/").slice(1).map(decodeURIComponent);
  } catch {
    throw new PathError(`cannot decode the path ${JSON.stringify(url)}`);
  }
}

/** The caller's mistake, which needs no log. */
class PathError extends Error {}

async function refreshed(
  answers: ServedAnswers,
  pod: PodName | undefined,
  [page, ifName = "", ...rest]: readonly string[],
): Promise<Page> {
  if (pod !== undefined && page === refreshPage && ifName !== "" && rest.length === 0)
    return json(await answers.refresh(pod, ifName));
  return { status: 405, text: `POST is for /pods/NAMESPACE/NAME/${refreshPage}/INTERFACE` };
}

function json(value: object): Page {
  return { status: 200, text: JSON.stringify(value), contentType: "application/json" };
}
