import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { type CallHost, HostGoneError, type PluginLookup } from "#engine/ports/host.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { FakeKernel } from "./fake-kernel.ts";
import type { FakePlugins } from "./fake-plugins.ts";
import type { FakeRecords } from "./fake-records.ts";

interface World {
  readonly plugins: FakePlugins;
  readonly kernel: FakeKernel;
  readonly records: FakeRecords;
}

/** The shim of one call: executes fake plugins and reaches a fake kernel, until it goes. */
export class FakeHost implements CallHost {
  readonly #world: World;
  readonly #gone = new AbortController();
  #last: Promise<unknown> = Promise.resolve();
  /** How many orders it has carried out. */
  orders = 0;
  /** The host goes instead of carrying out this order (counted from 0). */
  goesAt = Number.POSITIVE_INFINITY;

  constructor(world: World) {
    this.#world = world;
  }

  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  exec(call: DelegateCall): Promise<DelegateOutcome> {
    return this.#order(async () => {
      const outcome = await this.#world.plugins.run(call);
      // A delegate that runs leaves time for other work.
      await new Promise(setImmediate);
      return outcome;
    });
  }

  find(searchPath: readonly string[], types: readonly string[]): Promise<readonly PluginLookup[]> {
    const { plugins } = this.#world;
    return this.#order(async () => types.map((type) => plugins.find(type, searchPath)));
  }

  netlink(netnsPath: string, messages: Uint8Array): Promise<Uint8Array> {
    return this.#order(() => this.#world.kernel.transport(netnsPath, messages));
  }

  occupants(netnsPath: string): Promise<readonly RecordKey[]> {
    const { kernel, records } = this.#world;
    return this.#order(async () =>
      records.leadingTo((netns) => kernel.isSameNamespace(netns, netnsPath)),
    );
  }

  /** Carries out an order after those before it, as the shim does. */
  #order<T>(carryOut: () => Promise<T>): Promise<T> {
    const answer = this.#last.then(() => {
      if (this.orders >= this.goesAt) throw this.#go();
      this.orders++;
      return carryOut();
    });
    this.#last = answer.catch(() => undefined);
    return answer;
  }

  #go(): HostGoneError {
    const error = new HostGoneError("the shim has gone");
    this.#gone.abort(error);
    return error;
  }
}
