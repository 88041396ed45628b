import { CniError } from "#cni/error.ts";
import type { Engine } from "#engine/engine.ts";
import { type Call, namesIn } from "#engine/ports/call.ts";
import type { CallHost, PluginLookup } from "#engine/ports/host.ts";
import {
  noAgentError,
  type SandboxHost,
  type SandboxHosts,
  SandboxUnavailableError,
} from "#engine/ports/sandbox-hosts.ts";
import type { ShimSession } from "#host/shim-session.ts";
import { bootClockMs } from "#lib/boot-clock.ts";
import { deadline, pause, untilAborted } from "#lib/concurrency/deadline.ts";
import { leftoverIntervalMs } from "./agent.ts";

/** An agent replaces a session that has got a task within milliseconds, unless it has too many. */
const connectionMs = 2000;
/** How long an agent that restarts may take, from its last session or the start of plexusd. */
const restartMs = 30_000;

type AgentSession = Pick<ShimSession, keyof CallHost | "sandbox" | "done">;

/** A session without a task yet. */
interface IdleSession {
  readonly session: AgentSession;
  readonly path: readonly string[];
  /** Removes it from the idle ones. */
  take(): void;
  /** Ends its task, and with it the session. */
  release(): void;
}

/**
 * The sessions of `plexus agent --attach`. One waits for a task, which is a running sandbox or a
 * leftover; with its first order the agent connects another one.
 */
export class AgentSessions implements SandboxHosts {
  readonly #idle = new Set<IdleSession>();
  /** Resolves when a session becomes idle. */
  #offered = Promise.withResolvers<void>();
  readonly #listeners: (() => void)[] = [];
  #connected = 0;
  /** Until then, an agent is expected to connect. */
  #expectedUntil = bootClockMs() + restartMs;
  /** When to look for leftovers; one session does at a time. */
  #leftoversAt = 0;

  isAvailable(): boolean {
    return this.#connected > 0 || bootClockMs() < this.#expectedUntil;
  }

  onAvailable(listener: () => void): void {
    this.#listeners.push(listener);
  }

  async open(sandbox: Parameters<SandboxHosts["open"]>[0]): Promise<SandboxHost> {
    const { session, path, release } = await this.#take();
    try {
      const { outcome, message, links } = await session.sandbox(sandbox);
      if (outcome === "refused") throw new CniError("IoFailure", message);
      if (outcome !== "ok") throw new SandboxUnavailableError(outcome, message);
      const dispose = async (): Promise<void> => release();
      return { host: session, links: namesIn(links), path, [Symbol.asyncDispose]: dispose };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Asks an agent, if one is connected, which plugins it would execute: as {@link CallHost.find}. */
  async find(
    ...lookup: Parameters<CallHost["find"]>
  ): Promise<readonly PluginLookup[] | undefined> {
    if (this.#connected === 0) return undefined;
    const { session, release } = await this.#take();
    try {
      return await session.find(...lookup);
    } finally {
      release();
    }
  }

  /**
   * Keeps a session for {@link open}, and tears leftovers down meanwhile. Ends it after one task,
   * and when `stopping` is aborted while it has none.
   * @throws HostGoneError when the agent disconnects during an order for a leftover
   */
  async serve(
    engine: Engine,
    call: Call,
    { session, stopping }: { readonly session: AgentSession; readonly stopping: AbortSignal },
  ): Promise<void> {
    const signal = AbortSignal.any([session.gone, stopping]);
    this.#connected++;
    if (this.#connected === 1) for (const listener of this.#listeners) listener();
    try {
      let hasWorked = false;
      while (!hasWorked && !signal.aborted) {
        hasWorked = await this.#detachLeftovers(engine, call, { session, signal });
        if (!hasWorked && !signal.aborted) hasWorked = await this.#offer(call, session, signal);
      }
      if (hasWorked && !session.gone.aborted) {
        await session.done({ exitCode: 0, stdout: "", stderr: "" });
      }
    } finally {
      this.#connected--;
      this.#expectedUntil = bootClockMs() + restartMs;
    }
  }

  /** All that are due: the session that waits for a task does not look for leftovers meanwhile. */
  async #detachLeftovers(
    engine: Engine,
    call: Call,
    { session, signal }: { readonly session: AgentSession; readonly signal: AbortSignal },
  ): Promise<boolean> {
    if (bootClockMs() < this.#leftoversAt) return false;
    this.#leftoversAt = Number.POSITIVE_INFINITY;
    let hasWorked = false;
    try {
      while (!signal.aborted && (await engine.retryLeftover(call, session))) hasWorked = true;
    } finally {
      this.#leftoversAt = bootClockMs() + leftoverIntervalMs;
    }
    return hasWorked;
  }

  /** Returns whether the session got a sandbox, once it has released it. */
  async #offer({ path }: Call, session: AgentSession, signal: AbortSignal): Promise<boolean> {
    const taken = new AbortController();
    const released = Promise.withResolvers<void>();
    const idle: IdleSession = {
      ...{ session, path, release: released.resolve },
      take: () => {
        this.#idle.delete(idle);
        taken.abort();
      },
    };
    this.#idle.add(idle);
    this.#offered.resolve();
    this.#offered = Promise.withResolvers();
    await pause(leftoverIntervalMs, AbortSignal.any([signal, taken.signal]));
    this.#idle.delete(idle);
    if (taken.signal.aborted) await released.promise;
    return taken.signal.aborted;
  }

  /** Takes the next session that is idle. @throws SandboxUnavailableError when none is in time */
  async #take(): Promise<IdleSession> {
    if (this.#idle.size === 0 && !this.isAvailable()) throw noAgentError();
    using limit = deadline(connectionMs);
    for (;;) {
      const [idle] = this.#idle;
      idle?.take();
      if (idle !== undefined) return idle;
      // Waiting callers continue in their order.
      await untilAborted(this.#offered.promise, limit.signal).catch(() => {
        const why =
          this.#connected === 0
            ? "plexus agent is restarting, or plexusd is"
            : "every session of plexus agent has a task";
        throw new SandboxUnavailableError("busy", why);
      });
    }
  }
}
