import { CniError, CniErrorCode } from "#cni/error.ts";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { delegateFailure } from "#cni/runtime/delegate-error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { FailedAddRules, forgottenText, isRefusal } from "#engine/del/failed-add.ts";
import { type ChainToDetach, warnDetached } from "./chain-to-detach.ts";
import { ipamCall, ipamCallAfter } from "./ipam.ts";
import {
  insistsOnInterface,
  interfaceIsGone,
  leavesNothingOutside,
  namespaceIsGone,
} from "./netns.ts";

/**
 * Detaches one attachment: runs the DELs of its chain up to the first that fails.
 * - A plugin that fails is executed again without a namespace if the namespace is gone by now, or
 *   if only the interface is gone and {@link insistsOnInterface} holds. For others a missing
 *   interface proves nothing, because a device with a user-space driver never has one. A plugin
 *   that was killed at its timeout is not executed again.
 * - A failure is ignored if all state of the plugin was in the interface: {@link
 *   leavesNothingOutside}.
 * - If a plugin is missing, its IPAM plugin releases the address, and the other plugins are
 *   executed. The attachment is detached if the interface is gone and the grace period is over:
 *   rules or addresses on the host may need the plugin. The same goes for a missing IPAM plugin.
 * - A plugin that ended the ADD with an error has attached nothing that we know of. Its DEL may
 *   fail with the same refusal of its configuration, or after `failedAddGraceMs`: if its interface
 *   is gone, the attachment is forgotten with an event, after a DEL of the IPAM plugin. Plugins
 *   behind it never ran, so their failures do not count.
 * - After a plugin that succeeds without a namespace but keeps its address (`host-device`), its
 *   IPAM plugin is executed.
 * @throws CniError when something is left, HostGoneError when the shim has gone
 */
export async function detachChain(ctx: CallContext, chain: ChainToDetach): Promise<void> {
  await new ChainTeardown(ctx, chain).run();
}

interface FailedDel {
  readonly call: DelegateCall;
  readonly outcome: DelegateOutcome;
}

class ChainTeardown {
  readonly #ctx: CallContext;
  readonly #chain: ChainToDetach;
  /** "" once the namespace is known to be gone. */
  #netns: string;
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
    await this.#acceptMissing();
  }

  async #del(call: DelegateCall): Promise<void> {
    const first = await this.#execute(call);
    if (!succeeded(first) && this.#failedAdd.neverRan(call)) return;
    if (first.outcome === "missing") return this.#releaseAddress(call, first);
    const isRepeated = !succeeded(first) && (await this.#needsNoNamespace(call, first));
    const outcome = isRepeated ? await this.#execute(call, "") : first;
    if (!succeeded(outcome)) return this.#acceptFailure({ call, outcome });
    if (isRepeated || this.#netns === "") await this.#releaseLeftAddress(call);
  }

  async #needsNoNamespace(call: DelegateCall, { outcome }: DelegateOutcome): Promise<boolean> {
    if (outcome === "timeout" || this.#netns === "") return false;
    if (insistsOnInterface(call)) return this.#interfaceIsGone();
    const { ifName } = this.#chain;
    const isGone = await namespaceIsGone(this.#ctx, { netns: this.#netns, ifName });
    if (isGone) this.#netns = "";
    return isGone;
  }

  async #releaseLeftAddress(call: DelegateCall): Promise<void> {
    const ipam = ipamCallAfter(call);
    if (ipam === undefined) return;
    const outcome = await this.#execute(ipam, "");
    if (outcome.outcome === "missing") this.#missing.push({ call: ipam, outcome });
    else if (!succeeded(outcome)) throw this.#failure({ call: ipam, outcome });
  }

  /** @throws CniError unless nothing is left, or only the missing IPAM plugin can be the cause */
  async #acceptFailure(del: FailedDel): Promise<void> {
    const { call, outcome } = del;
    if (leavesNothingOutside(call) && (await this.#interfaceIsGone())) return;
    if (this.#failedAdd.mayForget(call, outcome)) {
      this.#forgotten = del;
      return;
    }
    const ipam = outcome.outcome === "exited" ? ipamCall(call) : undefined;
    if (ipam === undefined || !(await this.#isMissing(ipam)) || !(await this.#interfaceIsGone())) {
      throw this.#failure(del);
    }
    this.#requireGraceIsOver(del);
    this.#warnMissing(ipam, `IPAM plugin ${quoted(ipam)} of plugin ${quoted(call)} is missing`);
  }

  /** Executes a missing plugin's IPAM plugin. If both are missing, the address stays allocated. */
  async #releaseAddress(call: DelegateCall, outcome: DelegateOutcome): Promise<void> {
    this.#missing.push({ call, outcome });
    const ipam = ipamCall(call);
    if (ipam === undefined) return;
    const released = await this.#execute(ipam);
    if (succeeded(released) || released.outcome === "missing") return;
    throw this.#failure({ call: ipam, outcome: released });
  }

  /** Accepts that plugins are missing. @throws CniError while something may be there */
  async #acceptMissing(): Promise<void> {
    const [first] = this.#missing;
    if (first === undefined) return;
    if (!(await this.#interfaceIsGone())) {
      const { ifName } = this.#chain;
      throw this.#failure(
        first,
        `, and interface ${ifName} may still exist: install the plugin again`,
      );
    }
    this.#requireGraceIsOver(first);
    for (const { call } of this.#missing) {
      this.#warnMissing(call, `plugin ${quoted(call)} is missing`);
    }
  }

  /** @throws CniError during the grace period of a missing plugin */
  #requireGraceIsOver(missing: FailedDel): void {
    const { failingMs } = this.#chain;
    const { missingPluginGraceMs } = this.#ctx.config;
    const awaitsPlugins = failingMs !== undefined && failingMs < missingPluginGraceMs;
    if (!awaitsPlugins) return;
    const graceSeconds = Math.ceil(missingPluginGraceMs / 1000);
    throw this.#failure(
      missing,
      `; a missing plugin may come back: it counts as lost ${graceSeconds} s after the first DEL that failed`,
    );
  }

  /** Accepts that a plugin never succeeded. @throws CniError while something may be there */
  async #forget(): Promise<void> {
    const forgotten = this.#forgotten;
    if (forgotten === undefined) return;
    if (!(await this.#interfaceIsGone())) throw this.#failure(forgotten);
    const notReleased = await this.#releaseForgotten(forgotten);
    const text = forgottenText(this.#chain.failedAdd, { ...forgotten, notReleased });
    const plugin = forgotten.call.type;
    warnDetached(this.#ctx, this.#chain, { plugin, reason: "AttachmentForgotten", text });
  }

  /**
   * Executes the IPAM plugin of a forgotten plugin; returns its failure if the grace period is
   * over.
   * @throws CniError before that, unless it refuses its configuration
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
      throw new CniError(
        CniErrorCode.TryAgainLater,
        `plugin ${quoted(call)} was not executed: the time for detaching its network is used up`,
      );
    }
    const env = { ...call.env, CNI_NETNS: netns };
    return this.#ctx.delegateRunner(network)({ ...call, env, timeoutMs });
  }

  #failure({ call, outcome }: FailedDel, addition = ""): CniError {
    const error = delegateFailure(outcome, { call, network: this.#chain.network });
    return addition === "" ? error : error.withMessage(`${error.message}${addition}`);
  }

  #warnMissing({ type: plugin, searchPath }: DelegateCall, problem: string): void {
    const text =
      `${problem} in [${searchPath.join(" ")}]: ` +
      "the attachment counts as detached, because its interface is gone";
    warnDetached(this.#ctx, this.#chain, { plugin, reason: "PluginMissing", text });
  }
}

function quoted({ type }: DelegateCall): string {
  return JSON.stringify(type);
}

function succeeded(outcome: DelegateOutcome): boolean {
  return outcome.outcome === "exited" && outcome.code === 0;
}
