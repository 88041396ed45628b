import type { Result } from "#cni/result/result.ts";
import type { RunDelegate } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { sandboxLinks } from "#engine/call/sandbox.ts";
import { HostGoneError } from "#engine/ports.ts";

/**
 * The interfaces that the kernel has in a sandbox at the end of its ADD. The list is ordered right behind the last
 * plugin's execution: the shim carries out orders in sequence, so the ADD waits for no further round trip.
 */
export class KernelInterfaces {
  readonly #ctx: CallContext;
  readonly #netns: string;
  #names: Promise<ReadonlySet<string> | undefined> | undefined;

  constructor(ctx: CallContext, netns: string) {
    this.#ctx = ctx;
    this.#netns = netns;
  }

  /** Runs delegates, and orders the list behind the one with this number, counted from 1. */
  listedBehind(last: number, run: RunDelegate): RunDelegate {
    let started = 0;
    return (call) => {
      const outcome = run(call);
      if (++started === last) this.#list();
      return outcome;
    };
  }

  /**
   * The names of a result's sandbox interfaces that the kernel does not have, as a user-space driver has them. None
   * when the kernel could not be asked.
   * @throws HostGoneError when the shim has gone
   */
  async missingOf({ interfaces }: Result): Promise<string[]> {
    const names = await this.#names;
    if (names === undefined) return [];
    const missing = interfaces.filter(
      ({ name, sandbox }) => (sandbox ?? "") !== "" && !names.has(name),
    );
    return missing.map(({ name }) => name);
  }

  #list(): void {
    this.#names = this.#ask();
    // An ADD that fails does not wait for it.
    this.#names.catch(() => undefined);
  }

  async #ask(): Promise<ReadonlySet<string> | undefined> {
    try {
      const links = await sandboxLinks(this.#ctx, this.#netns);
      return new Set(links.map(({ name }) => name));
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      const fields = { err: error, netns: this.#netns };
      this.#ctx.logger.warn(
        fields,
        "the sandbox's interfaces cannot be listed: CHECK expects all that the results name",
      );
      return undefined;
    }
  }
}
