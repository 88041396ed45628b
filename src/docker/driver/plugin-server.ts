import { chmod, lstat, mkdir, rename, unlink } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { dirname } from "node:path";
import type { Logger } from "#engine/ports.ts";
import { temporarySocketPath } from "#lib/files/state-files.ts";
import type { NetworkDriver } from "./protocol.ts";
import { failure, type HttpAnswer, serveRequest } from "./serve-request.ts";

/** Far above what an engine sends; the longest is a network's configuration in JSON. */
const maxBodyBytes = 1024 * 1024;
/** What engines' plugins answer with. */
const contentType = "application/vnd.docker.plugins.v1.1+json";

/** What the server works with. */
export interface PluginServerOptions {
  readonly socketPath: string;
  readonly driver: NetworkDriver;
  readonly logger: Logger;
}

/** Serves the engine's HTTP requests on a Unix socket. */
export class PluginServer {
  readonly #options: PluginServerOptions;
  /** The last one is the engine's; those before it have lost their sockets. */
  readonly #servers: Server[] = [];
  /** Which file is the last server's socket. */
  #socket = { dev: 0, ino: 0 };
  #closed = false;

  private constructor(options: PluginServerOptions) {
    this.#options = options;
  }

  /**
   * Listens on the socket, for root alone. It is bound under a name of its own and then renamed: an engine
   * sees the predecessor's or this one's. @throws Error when something else is at the path
   */
  static async listen(options: PluginServerOptions): Promise<PluginServer> {
    const { socketPath } = options;
    const found = await lstat(socketPath).catch(() => undefined);
    if (found?.isSocket() === false) throw new Error(`${socketPath} exists and is no socket`);
    const server = new PluginServer(options);
    await server.#bind();
    return server;
  }

  /**
   * Makes the socket again when its file was removed, as with the engine's directory below /run: no engine
   * would find the driver any more. A successor's is left. @throws Error as of node:fs
   */
  async ensureReachable(): Promise<void> {
    const { socketPath: socket, logger } = this.#options;
    if (this.#closed || (await isThere(socket))) return;
    await this.#bind();
    logger.warn({ socket }, "the driver's socket was removed by someone else; made again");
  }

  /** Answers the requests in flight, and removes the socket unless it is a successor's. */
  async close(): Promise<void> {
    this.#closed = true;
    const { socketPath } = this.#options;
    const { dev, ino } = this.#socket;
    const found = await lstat(socketPath).catch(() => undefined);
    if (found?.dev === dev && found.ino === ino) await unlink(socketPath);
    await Promise.all(this.#servers.map(closeServer));
  }

  async #bind(): Promise<void> {
    const { socketPath } = this.#options;
    await mkdir(dirname(socketPath), { recursive: true, mode: 0o700 });
    const ownPath = temporarySocketPath(socketPath);
    const server = createServer((request, response) => void this.#serve(request, response));
    // The engine keeps connections and is not prepared for one that closes.
    server.keepAliveTimeout = 0;
    server.requestTimeout = 0;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once("error", reject);
    server.listen(ownPath, resolve);
    await promise;
    this.#servers.push(server);
    await chmod(ownPath, 0o600);
    this.#socket = await lstat(ownPath);
    await rename(ownPath, socketPath);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { driver, logger } = this.#options;
    try {
      const body = await readBody(request);
      const { method = "", url = "" } = request;
      const answer =
        body === undefined
          ? failure(413, `the body has more than ${maxBodyBytes} bytes`)
          : await serveRequest({ method, url, body }, { driver, logger });
      send(response, answer);
    } catch (error) {
      logger.warn({ err: error }, "a request of the engine broke off");
      response.destroy();
    }
  }
}

function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== "ENOENT",
  );
}

async function closeServer(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeIdleConnections();
  await promise;
}

/** Undefined when there is more of it than any engine sends. @throws Error when the connection breaks */
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
  const text = JSON.stringify(body);
  const allow = status === 405 ? { Allow: "POST" } : {};
  response.writeHead(status, { "Content-Type": contentType, ...allow });
  response.end(`${text}\n`);
}
