import { CniError, CniErrorCode } from "#cni/error.ts";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { delegateFailure } from "#cni/runtime/delegate-error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import type { ChainToDetach } from "./chain-to-detach.ts";
import { FailedAddRules, isRefusal, reportForgotten } from "./failed-add.ts";
import { ipamCall, ipamCallAfter } from "./ipam.ts";
import {
  insistsOnInterface,
  interfaceIsGone,
  leavesNothingOutside,
  namespaceIsGone,
} from "./netns.ts";

/**
 * Detaches one attachment: runs the DELs of its chain up to the first that fails.
 *
 * - A plugin that fails is executed again without a namespace where the namespace has gone meanwhile, or where
 *   only the interface has and the plugin is known to insist on it: {@link insistsOnInterface}. That there is no
 *   such interface alone says nothing, as a device with a user-space driver never has one. A plugin that was
 *   killed because it took too long is not executed again.
 * - A failure of a plugin whose whole state went with the interface is ignored: {@link leavesNothingOutside}.
 * - A plugin that is missing does not keep the others from their DEL, and its IPAM plugin is executed in
 *   its place, so that the address is released. The same goes for a plugin that fails because its
 *   IPAM plugin is missing. When the interface is gone after that, the attachment is detached, unless the
 *   plugin is waited for: it may have rules or addresses on the host that only itself can remove.
 * - A plugin that ended the ADD with an error of its own has attached nothing, as far as anybody can tell: its DEL may fail
 *   when it refuses its configuration with the same error, or when DELs have failed for `failedAddGraceMs`. The attachment
 *   is then forgotten with an event if its interface is gone, after a DEL of the IPAM plugin. The plugins of its
 *   chain that come after it never ran, so their failures do not count.
 * - After a plugin that succeeds without a namespace before it comes to its IPAM plugin (`host-device`), that is
 *   executed.
 * @throws CniError when something is left, HostGoneError when the shim has gone
 */
export async function detachChain(ctx: CallContext, chain: ChainToDetach): Promise<void> {
  await new ChainTeardown(ctx, chain).run();
}

/** An execution that did not succeed. */
interface FailedDel {
  readonly call: DelegateCall;
  readonly outcome: DelegateOutcome;
}

class ChainTeardown {
  readonly #ctx: CallContext;
  readonly #chain: ChainToDetach;
  /** "" once it is known that the namespace is gone. */
  #netns: string;
  /** Plugins whose executable is missing. */
  readonly #missing: FailedDel[] = [];
  readonly #failedAdd: FailedAddRules;
  /** The plugin that failed in the ADD, and now in its DEL. */
  #forgotten: FailedDel | undefined;

  constructor(ctx: CallContext, chain: ChainToDetach) {
    this.#ctx = ctx;
    this.#chain = chain;
    this.#netns = chain.netns;
    this.#failedAdd = new FailedAddRules(chain, ctx.config);
  }

  async run(): Promise<void> {
    for (const call of this.#chain.calls) await this.#del(call);
    await this.#forget();
    const [first] = this.#missing;
    if (first === undefined) return;
    if (!(await this.#interfaceIsGone())) throw this.#stillThere(first);
    if (this.#awaitsPlugins()) throw this.#mayComeBack(first);
    for (const { call } of this.#missing) {
      this.#reportMissing(call, `plugin ${JSON.stringify(call.type)} is missing`);
    }
  }

  async #del(call: DelegateCall): Promise<void> {
    const first = await this.#execute(call);
    if (!succeeded(first) && this.#failedAdd.neverRan(call)) return;
    if (first.outcome === "missing") return this.#releaseAddress(call, first);
    const isRepeated = !succeeded(first) && (await this.#needsNoNamespace(call, first));
    const outcome = isRepeated ? await this.#execute(call, "") : first;
    if (!succeeded(outcome)) {
      if (leavesNothingOutside(call) && (await this.#interfaceIsGone())) return;
      return this.#fail(call, outcome);
    }
    if (isRepeated || this.#netns === "") await this.#releaseLeftAddress(call);
  }

  /** Whether a plugin that failed in its namespace has nothing left to do there. */
  async #needsNoNamespace(call: DelegateCall, { outcome }: DelegateOutcome): Promise<boolean> {
    if (outcome === "timeout" || this.#netns === "") return false;
    if (insistsOnInterface(call)) return this.#interfaceIsGone();
    const { ifName } = this.#chain;
    const isGone = await namespaceIsGone(this.#ctx, { netns: this.#netns, ifName });
    if (isGone) this.#netns = "";
    return isGone;
  }

  /** Executes the IPAM plugin of one that succeeded without a namespace. If that is missing, it may come back. */
  async #releaseLeftAddress(call: DelegateCall): Promise<void> {
    const ipam = ipamCallAfter(call);
    if (ipam === undefined) return;
    const outcome = await this.#execute(ipam, "");
    if (succeeded(outcome)) return;
    if (outcome.outcome !== "missing") throw this.#failure({ call: ipam, outcome });
    this.#missing.push({ call: ipam, outcome });
  }

  /** Passes over a failure that can only come from the missing IPAM plugin. @throws DelegateError otherwise */
  async #fail(call: DelegateCall, outcome: DelegateOutcome): Promise<void> {
    if (this.#failedAdd.mayForget(call, outcome)) {
      this.#forgotten = { call, outcome };
      return;
    }
    const ipam = outcome.outcome === "exited" ? ipamCall(call) : undefined;
    if (ipam === undefined || !(await this.#isMissing(ipam)) || !(await this.#interfaceIsGone())) {
      throw this.#failure({ call, outcome });
    }
    if (this.#awaitsPlugins()) throw this.#mayComeBack({ call, outcome });
    const names = [ipam.type, call.type].map((type) => JSON.stringify(type));
    this.#reportMissing(ipam, `IPAM plugin ${names[0]} of plugin ${names[1]} is missing`);
  }

  /** Executes the IPAM plugin of a missing plugin. If that is missing too, nobody can release anything. */
  async #releaseAddress(call: DelegateCall, outcome: DelegateOutcome): Promise<void> {
    this.#missing.push({ call, outcome });
    const ipam = ipamCall(call);
    if (ipam === undefined) return;
    const released = await this.#execute(ipam);
    if (succeeded(released) || released.outcome === "missing") return;
    throw this.#failure({ call: ipam, outcome: released });
  }

  #awaitsPlugins(): boolean {
    const { failingMs } = this.#chain;
    return failingMs !== undefined && failingMs < this.#ctx.config.missingPluginGraceMs;
  }

  /** Counts the attachment of a plugin that never succeeded as detached. @throws CniError while something may be there */
  async #forget(): Promise<void> {
    const forgotten = this.#forgotten;
    if (forgotten === undefined) return;
    if (!(await this.#interfaceIsGone())) throw this.#failure(forgotten);
    const notReleased = await this.#releaseForgotten(forgotten);
    reportForgotten(this.#ctx, this.#chain, { ...forgotten, notReleased });
  }

  /**
   * Executes the IPAM plugin of a plugin that is forgotten, as an address may be allocated.
   * @returns its failure, where the grace period is over
   * @throws CniError when it fails otherwise than for its configuration before that
   */
  async #releaseForgotten({ call }: FailedDel): Promise<CniError | undefined> {
    const ipam = ipamCall(call);
    if (ipam === undefined) return undefined;
    const outcome = await this.#execute(ipam);
    const isDone = succeeded(outcome) || outcome.outcome === "missing";
    if (isDone || isRefusal(this.#chain.failedAdd, outcome)) return undefined;
    const error = this.#failure({ call: ipam, outcome });
    if (this.#failedAdd.graceIsOver) return error;
    throw error;
  }

  async #isMissing({ searchPath, type }: DelegateCall): Promise<boolean> {
    const [lookup] = await this.#ctx.host.find(searchPath, [type]);
    return lookup?.outcome === "missing";
  }

  #interfaceIsGone(): Promise<boolean> {
    return interfaceIsGone(this.#ctx, this.#netns, this.#chain.ifName);
  }

  #execute(call: DelegateCall, netns = this.#netns): Promise<DelegateOutcome> {
    const { network, budget } = this.#chain;
    // A plugin that hangs must leave time for its IPAM plugin, without which it is not forgotten.
    const parts = this.#failedAdd.graceIsOver && this.#failedAdd.isOf(call) ? 2 : 1;
    const timeoutMs = Math.min(call.timeoutMs, Math.floor(budget.remainingMs / parts));
    if (timeoutMs < 1) {
      const plugin = JSON.stringify(call.type);
      throw new CniError(
        CniErrorCode.TryAgainLater,
        `plugin ${plugin} was not executed: the time that its network may take to be detached is used up`,
      );
    }
    const env = { ...call.env, CNI_NETNS: netns };
    return this.#ctx.delegateRunner(network)({ ...call, env, timeoutMs });
  }

  #failure({ call, outcome }: FailedDel): CniError {
    return delegateFailure(outcome, { call, network: this.#chain.network });
  }

  #stillThere(missing: FailedDel): CniError {
    const error = this.#failure(missing);
    return error.withMessage(
      `${error.message}, and interface ${this.#chain.ifName} may still be there: install the plugin again`,
    );
  }

  #mayComeBack(missing: FailedDel): CniError {
    const error = this.#failure(missing);
    const graceSeconds = Math.ceil(this.#ctx.config.missingPluginGraceMs / 1000);
    return error.withMessage(
      `${error.message}; a missing plugin may come back: it counts as lost ${graceSeconds} s after the first DEL that failed`,
    );
  }

  #reportMissing({ searchPath, type }: DelegateCall, reason: string): void {
    const { network, ifName, pod } = this.#chain;
    const fields = { network, ifName, plugin: type, searchPath };
    const conclusion = "the attachment counts as detached, as its interface is gone";
    this.#ctx.logger.warn(fields, `${reason}: ${conclusion}`);
    if (pod === undefined) return;
    const where = `${reason} in [${searchPath.join(" ")}]`;
    const message = `network ${network} (${ifName}): ${where}; ${conclusion}`;
    this.#ctx.deps.events.record(pod, { type: "Warning", reason: "PluginMissing", message });
  }
}

function succeeded(outcome: DelegateOutcome): boolean {
  return outcome.outcome === "exited" && outcome.code === 0;
}
