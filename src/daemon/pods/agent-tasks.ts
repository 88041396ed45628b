import { type CallHost, HostGoneError } from "#engine/ports/host.ts";
import type { SandboxHost, SandboxHosts } from "#engine/ports/sandbox-hosts.ts";
import { untilAborted } from "#lib/concurrency/deadline.ts";
import { type Claim, Slots } from "#lib/concurrency/slots.ts";

/** An agent serves 32 sessions: one tears leftovers down, and one waits for the next task. */
const maxTasks = 30;

/** How tasks of one kind use the agent. */
export interface TaskOptions {
  /** For what each task counts. */
  readonly claims: readonly Claim[];
  /** Ends tasks that run, with a {@link HostGoneError}. */
  readonly signal: AbortSignal;
  /** Called when a task begins to wait for its turn. */
  readonly onOpen?: () => void;
}

/** Work of `plexus agent` in running sandboxes: in fair shares, and not beyond the end of plexusd. */
export class AgentTasks {
  readonly #hosts: SandboxHosts;
  readonly #slots = new Slots(maxTasks);
  readonly #stopping = new AbortController();
  readonly #ended = new AbortController();
  /** Fires when no more tasks are to begin. */
  readonly stopping = this.#stopping.signal;
  /** Fires when running tasks have to end. */
  readonly ended = this.#ended.signal;

  constructor(hosts: SandboxHosts) {
    this.#hosts = hosts;
  }

  beginNoMore(): void {
    this.#stopping.abort(new HostGoneError("plexusd stops"));
  }

  /** The agent's plugins end by themselves, and it keeps their sandboxes locked until then. */
  end(): void {
    this.#ended.abort(new HostGoneError("plexusd ends"));
  }

  isAvailable(): boolean {
    return this.#hosts.isAvailable();
  }

  /** The agent's sessions for tasks of one kind. */
  hosts(options: TaskOptions): SandboxHosts {
    return {
      isAvailable: () => this.isAvailable(),
      onAvailable: (listener) => this.#hosts.onAvailable(listener),
      open: (sandbox) => this.#open(sandbox, options),
    };
  }

  async #open(
    sandbox: Parameters<SandboxHosts["open"]>[0],
    { claims, signal, onOpen }: TaskOptions,
  ): Promise<SandboxHost> {
    onOpen?.();
    await using task = new AsyncDisposableStack();
    task.use(await this.#slots.acquire(this.stopping, { claims }));
    const { host, links, path } = task.use(await this.#hosts.open(sandbox));
    signal.throwIfAborted();
    const opened = task.move();
    const dispose = (): Promise<void> => opened.disposeAsync();
    return { host: hostUntil(signal, host), links, path, [Symbol.asyncDispose]: dispose };
  }
}

/** The host until the signal fires: then no order is sent, and none is waited for. */
function hostUntil(signal: AbortSignal, host: CallHost): CallHost {
  const order = async <T>(send: () => Promise<T>): Promise<T> => {
    signal.throwIfAborted();
    return untilAborted(send(), signal);
  };
  return {
    gone: AbortSignal.any([host.gone, signal]),
    exec: (call) => order(() => host.exec(call)),
    find: (searchPath, types) => order(() => host.find(searchPath, types)),
    netlink: (netns, messages) => order(() => host.netlink(netns, messages)),
    occupants: (netns) => order(() => host.occupants(netns)),
  };
}
