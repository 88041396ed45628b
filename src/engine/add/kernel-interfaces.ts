import type { Result } from "#cni/result/result.ts";
import type { RunDelegate } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { sandboxLinks } from "#engine/call/sandbox.ts";
import { HostGoneError } from "#engine/ports.ts";

/**
 * The interfaces that the kernel has in a sandbox after its ADD. The request follows the last plugin's execution
 * immediately: the shim executes orders in sequence, so the ADD waits for no extra round trip.
 */
export class KernelInterfaces {
  readonly #ctx: CallContext;
  readonly #netns: string;
  #names: Promise<ReadonlySet<string> | undefined> | undefined;

  constructor(ctx: CallContext, netns: string) {
    this.#ctx = ctx;
    this.#netns = netns;
  }

  /** Runs delegates, and requests the list after the one with this number, counted from 1. */
  listedBehind(last: number, run: RunDelegate): RunDelegate {
    let started = 0;
    return (call) => {
      const outcome = run(call);
      if (++started === last) this.#list();
      return outcome;
    };
  }

  /**
   * The sandbox interfaces of a result that the kernel does not have, because a user-space driver owns them. Empty
   * when the kernel's interfaces could not be listed.
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
        "cannot list the sandbox's interfaces: CHECK will expect every interface of the results",
      );
      return undefined;
    }
  }
}
