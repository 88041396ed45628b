import { chmod, lstat, mkdir, readdir, rename, rm } from "node:fs/promises";
import type { Server } from "node:net";
import { basename, dirname, join } from "node:path";
import { elapsedMs } from "#lib/elapsed.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { isTemporarySocketName, temporarySocketPath } from "#lib/files/state-files.ts";
import { isListening } from "./is-listening.ts";

/** A temporary name exists between bind and rename only; an older one is a killed process's. */
const abandonedAfterMs = 60_000;

/** Options of {@link UnixSocketServer.listen}. */
export interface UnixSocketOptions {
  readonly path: string;
  /** For log messages and reasons: `call socket`. */
  readonly name: string;
  /** Makes a server that does not listen yet; called once more each time the socket is recreated. */
  readonly createServer: () => Server & { closeAllConnections?: () => void };
  /** Further connections are closed at once. */
  readonly maxConnections: number;
  readonly logger: Record<"warn" | "error", (fields: object, message: string) => void>;
}

interface CloseOptions {
  /** Remove the file unless it is a successor's. Otherwise it stays, and clients get ECONNREFUSED. */
  readonly removeFile?: boolean;
  /** Drop open connections instead of waiting until they end. */
  readonly dropConnections?: boolean;
}

/** Serves a Unix socket for root only, and recreates its file when no process listens there any more. */
export class UnixSocketServer {
  readonly #options: UnixSocketOptions;
  /** The last one accepts connections; the sockets of those before it were removed. */
  readonly #servers: ReturnType<UnixSocketOptions["createServer"]>[] = [];
  #file = { dev: 0, ino: 0 };
  #problem: string | undefined;
  #isClosed = false;

  private constructor(options: UnixSocketOptions) {
    this.#options = options;
  }

  /**
   * Listens on a socket of mode 0600; a missing directory is made with mode 0700. The socket is bound
   * under a temporary name and then renamed. So a predecessor's socket is replaced atomically, and
   * libuv's unlink in a predecessor that closes does not hit the new one.
   * @throws Error when something else than a socket is at the path, or as node:fs and node:net do
   */
  static async listen(options: UnixSocketOptions): Promise<UnixSocketServer> {
    const { path } = options;
    if ((await ifPresent(lstat(path)))?.isSocket() === false) {
      throw new Error(`${path} exists and is not a socket`);
    }
    const server = new UnixSocketServer(options);
    await server.#bind();
    await removeAbandoned(path);
    return server;
  }

  /** Why clients cannot connect, as {@link ensureReachable} found last; undefined when they can. */
  notReadyReason(): string | undefined {
    return this.#problem;
  }

  /**
   * Recreates the socket if its file was removed, or is of a process that has ended since: otherwise
   * no client could ever connect again. Leaves a successor's socket alone.
   * @throws Error as node:fs and node:net do
   */
  async ensureReachable(): Promise<void> {
    if (this.#isClosed) return;
    const { path, name, logger } = this.#options;
    const found = await ifPresent(lstat(path));
    if (found !== undefined && this.#isOurs(found)) {
      this.#problem = undefined;
      return;
    }
    if (found !== undefined && (await isListening(path))) {
      const reason = `another process listens on ${path}`;
      if (this.#problem !== reason)
        logger.warn({ socket: path, reason }, `no client reaches the ${name}`);
      this.#problem = reason;
      return;
    }
    this.#problem =
      found === undefined
        ? `the ${name} ${path} was removed`
        : `the process that replaced the ${name} ${path} has ended`;
    await this.#bind();
    logger.warn({ socket: path, reason: this.#problem }, `recreated the ${name}`);
    this.#problem = undefined;
  }

  /** Accepts no more connections; resolves when the open ones have ended. */
  async close({ removeFile = false, dropConnections = false }: CloseOptions = {}): Promise<void> {
    this.#isClosed = true;
    const closed = this.#servers.map((server) => new Promise((resolve) => server.close(resolve)));
    if (dropConnections) for (const server of this.#servers) server.closeAllConnections?.();
    const { path } = this.#options;
    const found = removeFile ? await ifPresent(lstat(path)) : undefined;
    if (found !== undefined && this.#isOurs(found)) await rm(path, { force: true });
    await Promise.all(closed);
  }

  async #bind(): Promise<void> {
    const { path } = this.#options;
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const temporaryPath = temporarySocketPath(path);
    await this.#listen(temporaryPath);
    await chmod(temporaryPath, 0o600);
    this.#file = await lstat(temporaryPath);
    await rename(temporaryPath, path);
  }

  async #listen(path: string): Promise<void> {
    const { name, logger, maxConnections } = this.#options;
    const server = this.#options.createServer();
    server.maxConnections = maxConnections;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.on("error", (error) => {
      logger.error({ err: error }, `the ${name} failed`);
      reject(error);
    });
    server.listen(path, resolve);
    await promise;
    this.#servers.push(server);
  }

  #isOurs({ dev, ino }: { readonly dev: number; readonly ino: number }): boolean {
    return dev === this.#file.dev && ino === this.#file.ino;
  }
}

/** Removes sockets that a killed process could not rename any more. */
async function removeAbandoned(path: string): Promise<void> {
  const names = await readdir(dirname(path));
  for (const name of names.filter((each) => isTemporarySocketName(each, basename(path)))) {
    const temporary = join(dirname(path), name);
    const found = await ifPresent(lstat(temporary));
    if (found?.isSocket() !== true || elapsedMs(found.mtimeMs) < abandonedAfterMs) continue;
    await rm(temporary, { force: true });
  }
}
