import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { CniError, flattenCauses } from "#cni/error.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { errorMessage } from "#lib/error-message.ts";
import { readBody } from "#lib/net/read-body.ts";
import { UnixSocketServer } from "#lib/net/unix-socket-server.ts";
import { oneLine } from "#lib/one-line.ts";
import { fieldPath, problemsOf } from "#lib/parsing/parse-with.ts";
import type { NetworkDriver } from "./protocol.ts";
import { type Method, requestSchemas, withoutBody } from "./requests.ts";

/** Far more than dockerd sends; the longest body is a network's configuration in JSON. */
const maxBodyBytes = 1024 * 1024;
const contentType = "application/vnd.docker.plugins.v1.1+json";

/** dockerd opens one for each request that it has in flight. */
const maxConnections = 4096;

interface PluginServerOptions {
  readonly socketPath: string;
  readonly driver: NetworkDriver;
  readonly logger: Logger;
}

/** Serves dockerd's HTTP requests on a Unix socket. @throws Error when the socket cannot be made */
export function startPluginServer(options: PluginServerOptions): Promise<UnixSocketServer> {
  const { socketPath, logger } = options;
  return UnixSocketServer.listen({
    path: socketPath,
    name: "driver socket",
    createServer() {
      const server = createServer((request, response) => void serve(request, response, options));
      // dockerd keeps connections and cannot handle one that closes.
      server.keepAliveTimeout = 0;
      server.requestTimeout = 0;
      return server;
    },
    maxConnections,
    logger,
  });
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  { driver, logger }: PluginServerOptions,
): Promise<void> {
  try {
    const text = await readBody(request, maxBodyBytes);
    const { method = "", url = "" } = request;
    const { status, body } =
      text === undefined
        ? failure(413, `the body has more than ${maxBodyBytes} bytes`)
        : await serveRequest({ method, url, body: text }, { driver, logger });
    const allow = status === 405 ? { Allow: "POST" } : {};
    response.writeHead(status, { "Content-Type": contentType, ...allow });
    response.end(`${JSON.stringify(body)}\n`);
  } catch (error) {
    logger.warn({ err: error }, "a request of dockerd broke off");
    response.destroy();
  }
}

/** An HTTP answer; the body is sent as JSON. */
interface HttpAnswer {
  readonly status: number;
  readonly body: object;
}

/**
 * Serves one request of dockerd. An unknown method gets 404, so that dockerd can tell it from one
 * that failed; an unreadable body gets 4xx; a refused operation gets `{"Err": …}`. @internal
 */
export async function serveRequest(
  request: { readonly method: string; readonly url: string; readonly body: string },
  { driver, logger }: { readonly driver: NetworkDriver; readonly logger: Logger },
): Promise<HttpAnswer> {
  const name = request.url.replace(/^\//, "");
  if (!isMethod(name)) return failure(404, `unknown method ${JSON.stringify(name.slice(0, 100))}`);
  if (request.method !== "POST") return failure(405, `${name} is called with POST`);
  const read = parseBody(name, request.body);
  if ("problem" in read) {
    logger.warn({ method: name, problem: read.problem }, "dockerd sent a malformed request");
    return failure(400, `${name}: ${read.problem}`);
  }
  try {
    // parseBody() has checked the body with this method's schema.
    return { status: 200, body: await driver[name](read.value as never) };
  } catch (error) {
    logger.warn({ method: name, err: error }, "refused an operation");
    const message = error instanceof CniError ? flattenCauses(error) : errorMessage(error);
    return failure(200, oneLine(message));
  }
}

/** A failure as dockerd reads it: `Err` of network drivers, `Error` of IPAM drivers. */
function failure(status: number, message: string): HttpAnswer {
  return { status, body: { Err: message, Error: message } };
}

function isMethod(name: string): name is Method {
  return Object.hasOwn(requestSchemas, name);
}

/** dockerd repeats a request after a broken connection, and may then send an empty body. */
function parseBody(
  name: Method,
  text: string,
): { readonly value: unknown } | { readonly problem: string } {
  const schema = requestSchemas[name];
  const isEmpty = text.trim() === "";
  if (isEmpty && schema === withoutBody) return { value: {} };
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { problem: isEmpty ? "the body is empty" : "the body is not valid JSON" };
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return { value: parsed.data };
  // Without the value: it may be confidential.
  const problems = problemsOf(parsed.error, undefined);
  const named = problems.map(({ path, reason }) => `${fieldPath(path) || "the body"}: ${reason}`);
  return { problem: named.join("; ") };
}
