import { createServer, type IncomingMessage } from "node:http";
import { readyPage } from "#daemon/http/health-server.ts";
import { type Page, pages, timeouts } from "#daemon/http/http-server.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { errorMessage } from "#lib/error-message.ts";
import { readBody } from "#lib/net/read-body.ts";
import { UnixSocketServer } from "#lib/net/unix-socket-server.ts";
import type { AdminAnswers } from "./admin-answers.ts";
import { failedAddPage, maxFailedAddBytes } from "./failed-add.ts";
import { refreshPage } from "./refreshed.ts";

type ServedAnswers = Pick<
  AdminAnswers,
  "node" | "networks" | "lostDefinitions" | "readiness" | "pod" | "refresh" | "noteFailedAdd"
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
    // The caller's mistake, which needs no log.
    if (error instanceof URIError) return { status: 400, text: error.message };
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

/** What is asked of a pod: nothing more, one of its pages, or a page of one of its interfaces. */
const ofPod = /^\/pods\/([^/]+)\/([^/]+)(\/[^/]+)?(?:\/([^/]+))?$/;

/** @throws URIError if a `%` is not followed by the code of a character */
async function answer(request: IncomingMessage, answers: ServedAnswers): Promise<Page> {
  const { method, url = "" } = request;
  const parts = ofPod.exec(url)?.map((part) => part && decodeURIComponent(part)) ?? [];
  const [, namespace = "", name = "", page = "", ifName = ""] = parts;
  const pod = { namespace, name };
  const route = name === "" ? url : `POD${page}${ifName && "/INTERFACE"}`;
  switch (`${method} ${route}`) {
    case "GET /healthz":
      return { status: 200, text: "ok" };
    case "GET /readyz":
      return readyPage(answers.readiness());
    case "GET /node":
      return json(await answers.node());
    case "GET /networks":
      return json(await answers.networks());
    case "GET /lost-definitions":
      return json(await answers.lostDefinitions());
    case "DELETE /lost-definitions":
      return json(await answers.lostDefinitions({ discards: true }));
    case "GET POD":
      return json(await answers.pod(pod));
    case `POST POD/${failedAddPage}`:
      answers.noteFailedAdd(pod, (await readBody(request, maxFailedAddBytes)) ?? "");
      return { status: 200, text: "" };
    case `POST POD/${refreshPage}/INTERFACE`:
      return json(await answers.refresh(pod, ifName));
    default:
      return { status: 404, text: `plexusd does not serve ${method} ${url}` };
  }
}

function json(value: object): Page {
  return { status: 200, text: JSON.stringify(value), contentType: "application/json" };
}
