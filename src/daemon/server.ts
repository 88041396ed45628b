import { chmod, lstat, mkdir, rename } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import type { Engine } from "#engine/engine.ts";
import { HostGoneError, type Logger } from "#engine/ports.ts";
import { ShimSession } from "#host/shim-session.ts";
import { temporarySocketPath } from "#lib/state-files.ts";
import { ProtocolError } from "#protocol/frame.ts";
import { ProtocolVersionError } from "#protocol/messages.ts";
import { isAgent, serveAgent } from "./agent.ts";

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
  readonly #server: Server;
  readonly #options: CallServerOptions;
  readonly #calls = new Set<Promise<void>>();
  /** Aborted when no new calls are taken: agents, which would stay for ever, are to go. */
  readonly #stopping = new AbortController();

  private constructor(options: CallServerOptions) {
    this.#options = options;
    this.#server = createServer((socket) => this.#accept(socket));
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
    const ownPath = temporarySocketPath(options.socketPath);
    await server.#listen(ownPath);
    await chmod(ownPath, 0o600);
    await rename(ownPath, options.socketPath);
    return server;
  }

  /** Calls that are being served. */
  get inFlight(): number {
    return this.#calls.size;
  }

  /** Takes no new calls and waits until those in flight are answered. Shims that come now wait for the successor. */
  async drain(): Promise<void> {
    this.#stopping.abort();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    while (this.#calls.size > 0) await Promise.all(this.#calls);
    await closed;
  }

  #listen(path: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#server.on("error", (error) => {
      this.#options.logger.error({ err: error }, "the call socket failed");
      reject(error);
    });
    this.#server.listen(path, resolve);
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
