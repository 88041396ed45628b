import type { Result } from "#cni/result/result.ts";
import type { RunDelegate } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { sandboxLinks } from "#engine/call/sandbox.ts";
import { HostGoneError } from "#engine/ports.ts";

/** The kernel's interfaces in a sandbox after its ADD, listed without an extra round trip. */
export class KernelInterfaces {
  readonly #ctx: CallContext;
  readonly #netns: string;
  #names: Promise<ReadonlySet<string> | undefined> | undefined;

  constructor(ctx: CallContext, netns: string) {
    this.#ctx = ctx;
    this.#netns = netns;
  }

  /** Requests the list right after delegate `last` (from 1): the shim executes orders in turn. */
  listedBehind(last: number, run: RunDelegate): RunDelegate {
    let started = 0;
    return (call) => {
      const outcome = run(call);
      if (++started === last) this.#list();
      return outcome;
    };
  }

  /**
   * Sandbox interfaces of a user-space driver, which the kernel lacks. None if it was not listed.
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
