import { CniError } from "#cni/error.ts";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { delegateFailure } from "#cni/runtime/delegate-error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { forgottenText, isRefusal, refusesConfiguration } from "#engine/del/failed-add.ts";
import { ipamCall, ipamCallAfter } from "#engine/record/ipam.ts";
import { type ChainToDetach, warnDetached } from "./chain-to-detach.ts";
import { type Listed, withoutHeldAddresses } from "./held-address.ts";
import { type HeldDevice, heldDevice, mayChange } from "./held-device.ts";
import {
  insistingOnInterface,
  interfaceIsGone,
  leavingNothingOutside,
  namespaceIsGone,
  othersAt,
} from "./netns.ts";

/**
 * Detaches one attachment: runs the DELs of its chain up to the first that fails.
 * - A plugin that fails is executed again without a namespace if the namespace is gone by now, or
 *   if only the interface is gone and it is one of {@link insistingOnInterface}. For others a missing
 *   interface proves nothing, because a device with a user-space driver never has one. A plugin
 *   that was killed at its timeout is not executed again.
 * - A failure of {@link leavingNothingOutside} is ignored: all state was in the interface.
 * - If a plugin is missing, its IPAM plugin releases the address, and the other plugins are
 *   executed. The attachment is detached if the interface is gone and the grace period is over:
 *   rules or addresses on the host may need the plugin. The same goes for a missing IPAM plugin, and
 *   for one that the runtime no longer has, while its recorded directory is not trusted.
 * - A plugin that ended the ADD with an error has attached nothing that we know of. Its DEL may
 *   fail with the same refusal of its configuration, or after the grace period: if its interface
 *   is gone, the attachment is forgotten with an event, after a DEL of the IPAM plugin. Plugins
 *   behind it never ran, so their failures do not count.
 * - A plugin whose device another sandbox has now is not executed: it would reset the device there.
 *   Only its IPAM plugin is, and the last sandbox with the device releases it. While the other one
 *   is being attached, the teardown fails.
 * - A plugin that may work by address does not get one that another attachment has now, whose rules
 *   it would remove.
 * - What others have is asked again after a plugin that was slow; also whether they have the path of
 *   the namespace, which plugins then do not get.
 * - If all of it was detached before, a plugin that refuses its configuration has nothing left.
 * - After a plugin that succeeds without a namespace but keeps its address (`host-device`), its
 *   IPAM plugin is executed.
 * @throws CniError when something is left, HostGoneError when the shim has gone
 */
export async function detachChain(ctx: CallContext, chain: ChainToDetach): Promise<void> {
  await new ChainTeardown(ctx, chain).run();
}

/** After this time, others may have got what a decision was about: a plugin or its lock has hung. */
const decisionMs = 1000;

/** A DEL that did not succeed. */
interface FailedDel {
  readonly call: DelegateCall;
  readonly outcome: DelegateOutcome;
  readonly isMissing: boolean;
}

class ChainTeardown {
  readonly #ctx: CallContext;
  readonly #chain: ChainToDetach;
  /** "" once the namespace is known to be gone, or may be another sandbox's. */
  #netns: string;
  #held: HeldDevice | undefined;
  #listed: Listed | undefined;
  /** When it was decided whose the namespace, the device and the addresses are. */
  #decidedAt: number;
  readonly #missing: FailedDel[] = [];
  /** The position of the DEL of the plugin that ended the ADD: those before it never ran. */
  readonly #endedAdd: number;
  /** Whether DELs have failed long enough to forget an attachment whose ADD failed. */
  readonly #failedAddGraceIsOver: boolean;
  /** How many plugins have succeeded before the first that has not. */
  #done = 0;
  /** The plugin that failed in the ADD, and now in its DEL. */
  #forgotten: FailedDel | undefined;

  constructor(ctx: CallContext, chain: ChainToDetach) {
    const { calls, failedAdd, failingMs, netns } = chain;
    this.#ctx = ctx;
    this.#chain = chain;
    this.#netns = netns;
    this.#decidedAt = ctx.startedAt;
    this.#endedAdd = failedAdd === undefined ? -1 : calls.length - 1 - failedAdd.position;
    this.#failedAddGraceIsOver = failingMs !== undefined && failingMs >= ctx.config.delGraceMs;
  }

  async run(): Promise<void> {
    for (const [position, call] of this.#chain.calls.entries()) {
      const held = await this.#heldOf(call);
      if (held !== undefined) {
        await this.#leaveDevice(call, held);
        continue;
      }
      const failed = await this.#execute(call);
      if (failed === undefined) {
        await this.#releaseLeftAddress(call);
        this.#noteDone(position);
      } else if (position >= this.#endedAdd) await this.#handle(failed);
    }
    await this.#forget();
    await this.#acceptMissing();
  }

  /** The device of a plugin if another sandbox has it now. */
  async #heldOf(call: DelegateCall): Promise<HeldDevice | undefined> {
    await this.#decide();
    return this.#held !== undefined && mayChange(call, this.#held) ? this.#held : undefined;
  }

  /** Decides what others have, unless that was just decided. @returns records by their addresses */
  async #decide(): Promise<Listed> {
    const now = this.#ctx.deps.clock();
    const isOld = now - this.#decidedAt > decisionMs;
    if (this.#listed !== undefined && !isOld) return this.#listed;
    if (isOld && this.#netns !== "") await this.#decideNetns();
    this.#held = await heldDevice(this.#ctx, { ...this.#chain, netns: this.#netns });
    this.#decidedAt = now;
    this.#listed = new Map();
    return this.#listed;
  }

  async #decideNetns(): Promise<void> {
    const { ifName, record } = this.#chain;
    const { isAnothers } = await othersAt(this.#ctx, { ifName, netns: this.#netns }, record);
    if (isAnothers) this.#netns = "";
  }

  #noteDone(position: number): void {
    if (position !== this.#done || this.#missing.length > 0) return;
    this.#done++;
    this.#chain.onPluginDone?.();
  }

  /**
   * Releases the addresses of a plugin alone: another sandbox has its device.
   * @throws CniError 11 while that is undecided: if the other ADD fails, nothing else resets it
   */
  async #leaveDevice(call: DelegateCall, { id, holder, isAttached }: HeldDevice): Promise<void> {
    if (!isAttached) {
      throw new CniError(
        "TryAgainLater",
        `cannot yet release device ${id} with plugin ${quoted(call)}: ${holder} is being attached with it`,
      );
    }
    const failed = await this.#execute(ipamCall(call));
    if (failed !== undefined && !failed.isMissing) throw this.#failure(failed);
    const text = `did not release device ${id} with plugin ${quoted(call)}, because ${holder} has the device now`;
    warnDetached(this.#ctx, this.#chain, { plugin: call.type, reason: "DeviceInUse", text });
  }

  async #handle(failed: FailedDel): Promise<void> {
    const { call } = failed;
    if (failed.isMissing) return this.#releaseAddress(failed);
    const isRepeated =
      (await this.#needsNoNamespace(failed)) && (await this.#heldOf(call)) === undefined;
    const last = isRepeated ? await this.#execute(call, "") : failed;
    if (last !== undefined) return this.#acceptFailure(last);
    await this.#releaseLeftAddress(call, "");
  }

  async #needsNoNamespace({ call, outcome }: FailedDel): Promise<boolean> {
    if (outcome.outcome === "timeout" || this.#netns === "") return false;
    if (insistingOnInterface.has(call.type)) return this.#interfaceIsGone();
    const isGone = await namespaceIsGone(this.#ctx, this.#chain);
    if (isGone) this.#netns = "";
    return isGone;
  }

  /** Executes the IPAM plugin of a plugin that succeeded in this namespace, if that kept its address. */
  async #releaseLeftAddress(call: DelegateCall, netns = this.#netns): Promise<void> {
    const failed = netns === "" ? await this.#execute(ipamCallAfter(call), "") : undefined;
    if (failed === undefined) return;
    if (!failed.isMissing) throw this.#failure(failed);
    this.#missing.push(failed);
  }

  /** @throws CniError unless nothing is left, or only the missing IPAM plugin can be the cause */
  async #acceptFailure(failed: FailedDel): Promise<void> {
    const { call, outcome } = failed;
    if (leavingNothingOutside.has(call.type) && (await this.#interfaceIsGone())) return;
    if (this.#chain.wasDetached === true && refusesConfiguration(outcome)) {
      const fields = { err: this.#failure(failed) };
      this.#ctx.logger.debug(
        fields,
        "the sandbox was detached before: ignoring a plugin's refusal",
      );
      return;
    }
    if (this.#mayForget(failed)) {
      this.#forgotten = failed;
      return;
    }
    const ipam = outcome.outcome === "exited" ? ipamCall(call) : undefined;
    const mayAccept = ipam !== undefined && (await this.#isNotInstalled(ipam));
    if (!mayAccept || !(await this.#interfaceIsGone())) throw this.#failure(failed);
    this.#requireGraceIsOver(failed, this.#chain.noteMissing?.());
    this.#warnMissing(ipam, `IPAM plugin ${quoted(ipam)} of plugin ${quoted(call)} is missing`);
  }

  #mayForget({ call, outcome }: FailedDel): boolean {
    if (call !== this.#chain.calls[this.#endedAdd]) return false;
    // It was not executed: another operation may be running, or `plexus agent` does not trust it.
    if (outcome.outcome === "refused") return false;
    return this.#failedAddGraceIsOver || isRefusal(this.#chain.failedAdd, outcome);
  }

  /** Executes a missing plugin's IPAM plugin. If both are missing, the address stays allocated. */
  async #releaseAddress(missing: FailedDel): Promise<void> {
    this.#missing.push(missing);
    const failed = await this.#execute(ipamCall(missing.call));
    if (failed !== undefined && !failed.isMissing) throw this.#failure(failed);
  }

  /** Accepts that plugins are missing. @throws CniError while something may be there */
  async #acceptMissing(): Promise<void> {
    const [first] = this.#missing;
    if (first === undefined) return;
    const missingMs = this.#chain.noteMissing?.();
    if (!(await this.#interfaceIsGone())) {
      const { ifName } = this.#chain;
      const advice = `, and interface ${ifName} may still exist: install the plugin again`;
      throw this.#failure(first, advice);
    }
    this.#requireGraceIsOver(first, missingMs);
    for (const { call } of this.#missing) {
      this.#warnMissing(call, `plugin ${quoted(call)} is missing`);
    }
  }

  /** @throws CniError during the grace period of a missing plugin */
  #requireGraceIsOver(missing: FailedDel, missingMs = Number.POSITIVE_INFINITY): void {
    const { delGraceMs } = this.#ctx.config;
    if (missingMs >= delGraceMs) return;
    const graceSeconds = Math.ceil(delGraceMs / 1000);
    throw this.#failure(
      missing,
      `; a missing plugin may come back: it counts as lost ${graceSeconds} s after the first DEL that did not find it`,
    );
  }

  /**
   * Accepts that a plugin never succeeded, and executes its IPAM plugin.
   * @throws CniError while something may be there, or an address: before the grace period is over,
   *   or as long as the shim refuses to execute the IPAM plugin
   */
  async #forget(): Promise<void> {
    const forgotten = this.#forgotten;
    if (forgotten === undefined) return;
    if (!(await this.#interfaceIsGone())) throw this.#failure(forgotten);
    const { call, outcome } = forgotten;
    const { failedAdd } = this.#chain;
    const failed = await this.#execute(ipamCall(call));
    const isDone = failed === undefined || failed.isMissing || isRefusal(failedAdd, failed.outcome);
    const notReleased = isDone ? undefined : this.#failure(failed);
    const mayGiveUp = this.#failedAddGraceIsOver && failed?.outcome.outcome !== "refused";
    if (notReleased !== undefined && !mayGiveUp) throw notReleased;
    const text = forgottenText(failedAdd, { call, outcome, notReleased });
    warnDetached(this.#ctx, this.#chain, {
      plugin: call.type,
      reason: "AttachmentForgotten",
      text,
      isKnown: notReleased === undefined && isRefusal(failedAdd, outcome),
    });
  }

  async #isNotInstalled({ searchPath, type }: DelegateCall): Promise<boolean> {
    const [lookup] = await this.#ctx.host.find(searchPath, [type]);
    return this.#isMissing(type, lookup?.outcome);
  }

  /** Whether an outcome means that a plugin is missing: see {@link ChainToDetach.ownPath}. */
  async #isMissing(type: string, outcome: string | undefined): Promise<boolean> {
    const { ownPath } = this.#chain;
    if (outcome !== "refused" || ownPath === undefined) return outcome === "missing";
    const [lookup] = await this.#ctx.host.find(ownPath, [type]);
    return lookup?.outcome === "missing";
  }

  #interfaceIsGone(): Promise<boolean> {
    return interfaceIsGone(this.#ctx, { netns: this.#netns, ifName: this.#chain.ifName });
  }

  /** Executes a DEL, if there is one. @returns undefined when it succeeded */
  async #execute(call: DelegateCall | undefined, netns?: string): Promise<FailedDel | undefined> {
    if (call === undefined) return undefined;
    const listed = await this.#decide();
    const order = await withoutHeldAddresses(this.#ctx, call, listed);
    const { network, budget, calls } = this.#chain;
    // A plugin that hangs must leave time for its IPAM plugin, without which it is not forgotten.
    const parts = this.#failedAddGraceIsOver && call === calls[this.#endedAdd] ? 2 : 1;
    const timeoutMs = Math.min(call.timeoutMs, Math.floor(budget.remainingMs / parts));
    if (timeoutMs < 1) {
      throw new CniError(
        "TryAgainLater",
        `plugin ${quoted(call)} was not executed: the time for detaching its network is used up`,
      );
    }
    const env = { ...call.env, CNI_NETNS: netns ?? this.#netns };
    const outcome = await this.#ctx.delegateRunner(network)({ ...order, env, timeoutMs });
    if (outcome.outcome === "exited" && outcome.code === 0) return undefined;
    return { call, outcome, isMissing: await this.#isMissing(call.type, outcome.outcome) };
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
