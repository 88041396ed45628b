import { chmod, lstat, mkdir, rename } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import type { Engine } from "#engine/engine.ts";
import { HostGoneError, type Logger } from "#engine/ports.ts";
import { ShimSession } from "#host/shim-session.ts";
import { temporarySocketPath } from "#lib/files/state-files.ts";
import { ProtocolError } from "#protocol/frame.ts";
import { ProtocolVersionError } from "#protocol/messages.ts";
import { isAgent, isAgentOnce, serveAgent, serveAgentOnce } from "./agent.ts";

/** A shim sends its request at once; one that has not by then never will. */
const requestTimeoutMs = 10_000;

/** What the server works with. */
export interface CallServerOptions {
  readonly socketPath: string;
  readonly engine: Engine;
  readonly logger: Logger;
}

/** Accepts shims on a Unix socket and serves each one's call. */
export class CallServer {
  readonly #options: CallServerOptions;
  readonly #calls = new Set<Promise<void>>();
  /** The last one accepts shims; those before it have lost their sockets. */
  readonly #servers: Server[] = [];
  /** Which file is the last server's socket. */
  #socket = { dev: 0, ino: 0 };
  #problem: string | undefined;
  #draining = false;
  /** Aborted when no new calls are taken: agents, which would stay for ever, are to go. */
  readonly #stopping = new AbortController();

  private constructor(options: CallServerOptions) {
    this.#options = options;
  }

  /**
   * Listens on the socket (mode 0600, its directory 0700 when it has to be made). It is bound under
   * a name of its own and then renamed: a predecessor's socket is replaced in one step, and the
   * unlink that libuv does when a predecessor closes cannot hit ours. Anything else than a socket
   * at that path is an error.
   */
  static async listen(options: CallServerOptions): Promise<CallServer> {
    await mkdir(dirname(options.socketPath), { recursive: true, mode: 0o700 });
    await refuseForeignFile(options.socketPath);
    const server = new CallServer(options);
    await server.#bind();
    return server;
  }

  /** Calls that are being served. */
  get inFlight(): number {
    return this.#calls.size;
  }

  /** Why no shim can connect, as {@link ensureReachable} found it last; undefined = they can. */
  notReadyReason(): string | undefined {
    return this.#problem;
  }

  /**
   * Makes the socket again when its file was removed: no call would ever arrive. A successor's is left.
   * @returns why no shim can connect
   * @throws Error as of node:fs
   */
  async ensureReachable(): Promise<string | undefined> {
    if (this.#draining) return this.#problem;
    const { socketPath, logger } = this.#options;
    const found = await lstat(socketPath).catch(() => undefined);
    if (found === undefined) {
      this.#problem = `the socket ${socketPath} was removed`;
      await mkdir(dirname(socketPath), { recursive: true, mode: 0o700 });
      await this.#bind();
      logger.warn(
        { socket: socketPath },
        "the call socket was removed by someone else; made again",
      );
    }
    const isOurs = found === undefined || this.#isOurs(found);
    this.#problem = isOurs ? undefined : `another process listens on ${socketPath}`;
    return this.#problem;
  }

  /** Takes no new calls and waits until those in flight are answered. Shims that come now wait for the successor. */
  async drain(): Promise<void> {
    this.#draining = true;
    this.#stopping.abort();
    const closed = this.#servers.map(
      (server) => new Promise<void>((resolve) => server.close(() => resolve())),
    );
    while (this.#calls.size > 0) await Promise.all(this.#calls);
    await Promise.all(closed);
  }

  async #bind(): Promise<void> {
    const { socketPath } = this.#options;
    const ownPath = temporarySocketPath(socketPath);
    await this.#listen(ownPath);
    await chmod(ownPath, 0o600);
    this.#socket = await lstat(ownPath);
    await rename(ownPath, socketPath);
  }

  #isOurs({ dev, ino }: { readonly dev: number; readonly ino: number }): boolean {
    return dev === this.#socket.dev && ino === this.#socket.ino;
  }

  #listen(path: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const server = createServer((socket) => this.#accept(socket));
    this.#servers.push(server);
    server.on("error", (error) => {
      this.#options.logger.error({ err: error }, "the call socket failed");
      reject(error);
    });
    server.listen(path, resolve);
    return promise;
  }

  #accept(socket: Socket): void {
    const call = this.#serve(new ShimSession(socket)).finally(() => {
      this.#calls.delete(call);
      socket.destroySoon();
    });
    this.#calls.add(call);
  }

  async #serve(session: ShimSession): Promise<void> {
    const { engine, logger } = this.#options;
    try {
      const request = await session.request(requestTimeoutMs);
      if (isAgentOnce(request)) {
        return await session.done(await serveAgentOnce(engine, request, session));
      }
      if (isAgent(request)) {
        const stopping = this.#stopping.signal;
        return await serveAgent(engine, request, { host: session, stopping });
      }
      await session.done(await engine.handle(request, session));
    } catch (error) {
      if (error instanceof HostGoneError)
        logger.warn({ reason: error.message }, "the shim went before its call was served");
      else if (error instanceof ProtocolVersionError)
        logger.warn({ reason: error.message }, "a shim of another release was refused");
      else if (error instanceof ProtocolError)
        logger.error({ err: error }, "a shim breaks the protocol");
      else logger.error({ err: error }, "a call could not be served");
    }
  }
}

async function refuseForeignFile(path: string): Promise<void> {
  try {
    if (!(await lstat(path)).isSocket()) throw new Error(`${path} exists and is no socket`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}
