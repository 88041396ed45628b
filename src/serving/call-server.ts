import { createServer, type Socket } from "node:net";
import type { Engine } from "#engine/engine.ts";
import { readCall } from "#engine/ports/call.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { SandboxHosts } from "#engine/ports/sandbox-hosts.ts";
import { ShimSession } from "#host/shim-session.ts";
import { deadline, untilAborted } from "#lib/concurrency/deadline.ts";
import { UnixSocketServer } from "#lib/net/unix-socket-server.ts";
import { ProtocolError } from "#protocol/frame.ts";
import { ProtocolVersionError } from "#protocol/messages.ts";
import { agentOf, serveAgent, serveAgentOnce } from "./agent.ts";
import { AgentSessions } from "./agent-sessions.ts";

/** Far more than the pods that a node starts and stops at a time. */
const maxConnections = 4096;

/** Half of the time that a process has to stop, and as long as a shim waits for the next one. */
const lastCallMs = 10_000;

interface CallServerOptions {
  readonly socketPath: string;
  readonly engine: Engine;
  readonly logger: Logger;
}

/** Accepts shims on a Unix socket and serves each one's call. */
export class CallServer {
  readonly #options: CallServerOptions;
  readonly #calls = new Map<Promise<void>, Socket>();
  readonly #agents = new AgentSessions();
  /** The agents that are connected and may attach networks to running sandboxes. */
  readonly sandboxHosts: SandboxHosts = this.#agents;
  /** Those without `--attach`. */
  readonly #leftoverAgents = new Set<ShimSession>();
  #server: UnixSocketServer | undefined;
  /** Aborted when the server drains: agents would stay forever. */
  readonly #stopping = new AbortController();

  private constructor(options: CallServerOptions) {
    this.#options = options;
  }

  /** @throws Error when the socket cannot be made */
  static async listen(options: CallServerOptions): Promise<CallServer> {
    const calls = new CallServer(options);
    calls.#server = await UnixSocketServer.listen({
      path: options.socketPath,
      name: "call socket",
      createServer: () => createServer((socket) => calls.#accept(socket)),
      maxConnections,
      logger: options.logger,
    });
    return calls;
  }

  /** Asks an agent of either kind, if one is connected: as {@link AgentSessions.find}. */
  findByAgent: AgentSessions["find"] = (...lookup) => {
    const [host = this.#agents] = this.#leftoverAgents;
    return host.find(...lookup);
  };

  get inFlight(): number {
    return this.#calls.size;
  }

  /** Why no shim can connect, as {@link ensureReachable} found last; undefined when they can. */
  notReadyReason(): string | undefined {
    return this.#server?.notReadyReason();
  }

  /** Recreates the socket when its file was removed. @throws Error when it cannot be made */
  async ensureReachable(): Promise<void> {
    await this.#server?.ensureReachable();
  }

  /**
   * Serves until no call is in flight, because a slow plugin must not keep other pods waiting for the
   * successor. After {@link lastCallMs}, further calls do wait, so that the limit meets no new one. At
   * the limit, disconnects the remaining shims, which roll back or detach.
   */
  async drain(limit?: AbortSignal): Promise<void> {
    this.#stopping.abort();
    const idle = this.#untilIdle();
    using last = deadline(lastCallMs, limit);
    await untilAborted(idle, last.signal).catch(() => undefined);
    const closed = this.#server?.close();
    await untilAborted(idle, limit).catch(() => undefined);
    if (this.#calls.size > 0) {
      const message = "plexusd stops during calls: their shims roll back or detach";
      this.#options.logger.warn({ calls: this.#calls.size }, message);
    }
    for (const socket of this.#calls.values()) socket.destroy();
    await this.#untilIdle();
    await closed;
  }

  async #untilIdle(): Promise<void> {
    while (this.#calls.size > 0) await Promise.all(this.#calls.keys());
  }

  #accept(socket: Socket): void {
    const call = this.#serve(socket).finally(() => {
      this.#calls.delete(call);
      socket.destroySoon();
    });
    this.#calls.set(call, socket);
  }

  async #serve(socket: Socket): Promise<void> {
    const { engine, logger } = this.#options;
    const session = new ShimSession(socket);
    const stopping = this.#stopping.signal;
    try {
      const call = readCall(await session.request());
      switch (agentOf(call)) {
        case "once":
          return await session.done(await serveAgentOnce(engine, call, session));
        case "attach":
          return await this.#agents.serve(engine, call, { session, stopping });
        case "leftovers":
          this.#leftoverAgents.add(session);
          return await serveAgent(engine, call, { host: session, stopping });
      }
      const { answer, log, afterAnswer } = await engine.handle(call, session);
      await session.done(answer).finally(() => {
        log();
        afterAnswer();
      });
    } catch (error) {
      // Another plexusd, which looks whether this one has ended, sends nothing.
      if (error instanceof HostGoneError && socket.bytesRead === 0)
        logger.debug({ reason: error.message }, "a client disconnected without a call");
      else if (error instanceof HostGoneError)
        logger.warn({ reason: error.message }, "the shim disconnected before its call was served");
      else if (error instanceof ProtocolVersionError)
        logger.warn({ reason: error.message }, "rejected a shim of another release");
      else if (error instanceof ProtocolError)
        logger.error({ err: error }, "a shim violated the protocol");
      else logger.error({ err: error }, "a call could not be served");
    } finally {
      this.#leftoverAgents.delete(session);
    }
  }
}
