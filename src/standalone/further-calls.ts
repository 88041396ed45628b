import { statSync } from "node:fs";
import { rmdir } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import os from "node:os";
import { basename, dirname, join } from "node:path";
import { noLogger } from "#engine/ports/logger.ts";
import { ShimSession } from "#host/shim-session.ts";
import { UnixSocketServer } from "#lib/net/unix-socket-server.ts";

/** A shim whose connection is closed starts a process. */
const maxConnections = 256;
/** The memory of a process that always has calls is returned, too. */
const lifetimeS = 600;
/** The clock of records stands still while the machine is suspended ({@link openBootClock}). */
const suspendedMaxS = 2;

/**
 * The socket of a plexus-standalone that stays, as in shim/session.c. plexusd cannot reach the
 * directory: it must not pose as a shim of a process that may read every file of the host. A
 * runtime in another network namespace may reach another API server.
 * @param daemonSocket plexusd's
 */
export function standaloneSocket(daemonSocket: string): string {
  const name = `${basename(daemonSocket)}.${inodeOf("/proc/self/ns/net")}`;
  return join(`${dirname(daemonSocket)}-standalone`, name);
}

/** Options of {@link FurtherCalls}. */
export interface FurtherCallsOptions {
  readonly socketPath: string;
  /** The executable of this process. */
  readonly executable: string;
  readonly serve: (session: ShimSession) => Promise<void>;
}

/**
 * Serves further calls on a socket for some time after the last one, so that a burst of calls costs
 * one start. One process has the socket; the others of a burst end after their own calls. Nothing
 * depends on it: without it, shims start a process each.
 */
export class FurtherCalls {
  readonly #options: FurtherCallsOptions;
  readonly #started = clocks();
  readonly #inode: number | undefined;
  readonly #calls = new Set<Promise<void>>();
  readonly #ended = Promise.withResolvers<void>();
  #server: Promise<UnixSocketServer | undefined> | undefined;
  #lingerMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: FurtherCallsOptions) {
    this.#options = options;
    this.#inode = inodeOf(options.executable);
  }

  /** Accepts calls from now on, and until that time after the last one; 0: none after those that run. */
  linger(milliseconds: number): void {
    this.#lingerMs = milliseconds;
    if (milliseconds > 0) this.#server ??= this.#listen();
  }

  /** Counts a call until it ends. */
  async during(call: Promise<void>): Promise<void> {
    clearTimeout(this.#timer);
    this.#calls.add(call);
    try {
      await call;
    } finally {
      this.#calls.delete(call);
      if (this.#calls.size === 0) void this.#wait();
    }
  }

  /** Resolves when there are no more calls. */
  whenEnded(): Promise<void> {
    return this.#ended.promise;
  }

  async #wait(): Promise<void> {
    const server = await this.#server;
    await server?.ensureReachable().catch(() => undefined);
    const isAsked = server !== undefined && server.notReadyReason() === undefined;
    if (this.#calls.size > 0) return;
    const milliseconds = isAsked && this.#mayServe() ? this.#lingerMs : 0;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#end(), milliseconds);
  }

  async #listen(): Promise<UnixSocketServer | undefined> {
    if (await isServed(this.#options.socketPath)) return undefined;
    try {
      return await UnixSocketServer.listen({
        path: this.#options.socketPath,
        name: "socket for further calls",
        createServer: () => createServer((socket) => this.#accept(socket)),
        maxConnections,
        logger: noLogger,
      });
    } catch {
      // A file at its path, a path that is too long, a full disk: each call starts a process.
      return undefined;
    }
  }

  #accept(socket: Socket): void {
    if (!this.#mayServe()) {
      socket.destroy();
      void this.#end();
      return;
    }
    // The shim sees that the connection has ended, as after a crash.
    const call = this.#options.serve(new ShimSession(socket)).catch(() => undefined);
    void this.during(call.finally(() => socket.destroySoon()));
  }

  /** Whether the process is young, was never suspended, and has the executable that is installed. */
  #mayServe(): boolean {
    const { sinceBootS, awakeS } = clocks();
    const ageS = sinceBootS - this.#started.sinceBootS;
    const suspendedS = ageS - (awakeS - this.#started.awakeS);
    const isInstalled = inodeOf(this.#options.executable) === this.#inode;
    return ageS < lifetimeS && suspendedS < suspendedMaxS && isInstalled;
  }

  async #end(): Promise<void> {
    const server = await this.#server;
    await server?.close({ removeFile: true });
    await rmdir(dirname(this.#options.socketPath)).catch(() => undefined);
    while (this.#calls.size > 0) await Promise.all(this.#calls);
    this.#ended.resolve();
  }
}

function isServed(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

function clocks(): { readonly sinceBootS: number; readonly awakeS: number } {
  return { sinceBootS: os.uptime(), awakeS: performance.now() / 1000 };
}

function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino;
}
