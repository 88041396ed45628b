import { noAgentError, type SandboxHost, type SandboxHosts } from "#engine/ports/sandbox-hosts.ts";
import type { FakeHost } from "#engine/testing/fake-host.ts";
import type { FakeKernel } from "#engine/testing/fake-kernel.ts";

interface World {
  readonly kernel: FakeKernel;
  host(): FakeHost;
}

/** An agent that opens every sandbox, unless a test makes it refuse. */
export class FakeSandboxHosts implements SandboxHosts {
  readonly #world: World;
  readonly #sessions: FakeHost[] = [];
  /** What was opened, in order. */
  readonly opened: Parameters<SandboxHosts["open"]>[0][] = [];
  isConnected = true;
  /** Thrown instead of opening a sandbox, when set. */
  refusal: Error | undefined;
  /** The agent disconnects instead of carrying out this order of a session (counted from 0). */
  goesAt = Number.POSITIVE_INFINITY;

  constructor(world: World) {
    this.#world = world;
  }

  /** How many orders it has carried out. */
  get orders(): number {
    return this.#sessions.reduce((sum, { orders }) => sum + orders, 0);
  }

  /** The agent carries out no further order of the sessions that are open. */
  disconnect(): void {
    for (const host of this.#sessions) host.goesAt = host.orders;
  }

  isAvailable(): boolean {
    return this.isConnected;
  }

  onAvailable(): void {}

  async open(sandbox: Parameters<SandboxHosts["open"]>[0]): Promise<SandboxHost> {
    if (!this.isConnected) throw noAgentError();
    this.opened.push(sandbox);
    if (this.refusal !== undefined) throw this.refusal;
    const host = this.#world.host();
    host.goesAt = this.goesAt;
    this.#sessions.push(host);
    return {
      host,
      links: new Set(["lo", ...this.#world.kernel.linkNames(sandbox.netns)]),
      path: ["/opt/cni/bin"],
      [Symbol.asyncDispose]: async () => undefined,
    };
  }
}
