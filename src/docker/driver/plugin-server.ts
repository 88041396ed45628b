import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Logger } from "#engine/ports.ts";
import { UnixSocketServer } from "#lib/net/unix-socket-server.ts";
import type { NetworkDriver } from "./protocol.ts";
import { failure, type HttpAnswer, serveRequest } from "./serve-request.ts";

/** Far more than dockerd sends; the longest body is a network's configuration in JSON. */
const maxBodyBytes = 1024 * 1024;
const contentType = "application/vnd.docker.plugins.v1.1+json";

/** dockerd opens one for each request that it has in flight. */
const maxConnections = 4096;

/** Options of {@link startPluginServer}. */
export interface PluginServerOptions {
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
    const body = await readBody(request);
    const { method = "", url = "" } = request;
    const answer =
      body === undefined
        ? failure(413, `the body has more than ${maxBodyBytes} bytes`)
        : await serveRequest({ method, url, body }, { driver, logger });
    send(response, answer);
  } catch (error) {
    logger.warn({ err: error }, "a request of dockerd broke off");
    response.destroy();
  }
}

/** Returns undefined for a body that is too long. @throws Error when the connection breaks */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= maxBodyBytes) chunks.push(chunk);
  }
  return size > maxBodyBytes ? undefined : Buffer.concat(chunks).toString();
}

function send(response: ServerResponse, { status, body }: HttpAnswer): void {
  const allow = status === 405 ? { Allow: "POST" } : {};
  response.writeHead(status, { "Content-Type": contentType, ...allow });
  response.end(`${JSON.stringify(body)}\n`);
}
