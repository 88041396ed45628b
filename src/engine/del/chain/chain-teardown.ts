import { CniError, CniErrorCode, withNetworkContext } from "#cni/error.ts";
import { type DelegateCall, type DelegateOutcome, isNotExecutable } from "#cni/runtime/delegate.ts";
import { delegateFailure } from "#cni/runtime/delegate-error.ts";
import { ipamCall, ipamCallAfter } from "#cni/runtime/ipam.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { FindingReason } from "#lib/reasons.ts";
import type { ChainToDetach } from "./chain-to-detach.ts";
import { withConfOfNow } from "./conf-of-now.ts";
import { withoutAddressesOfOthers } from "./held-address.ts";
import { type HeldDevice, heldDevice } from "./held-device.ts";
import { keepsOnlyInterface } from "./keeps-only-interface.ts";
import {
  insistingOnInterface,
  interfaceIsGone,
  leavingNothingOutside,
  namespaceIsGone,
  othersAt,
} from "./netns.ts";
import { wouldTakeShaping } from "./shaping-device.ts";

/**
 * Detaches one attachment: runs the DELs of its chain up to the first that fails and cannot be given
 * up. What is given up does not stop the chain. By what the plugin's ADD did, a failed DEL
 * - of a plugin behind the one that ended the ADD is ignored: it never ran.
 * - of the plugin that ended the ADD with an error is given up, unless the shim refused to execute
 *   it: at once if it {@link keepsOnlyInterface} and its IPAM plugin succeeds, or if it refused the
 *   version both times, otherwise after the grace period.
 * - of another plugin is given up after the grace period if that cannot be executed, or lacks its
 *   IPAM plugin. One that answers an error is executed once more with the network's configuration of
 *   now, and never given up.
 *
 * Nothing is given up while the interface may exist, or before the IPAM plugin's DEL. Besides,
 * - a plugin that fails is executed again without a namespace if the namespace is gone by now, or
 *   if only the interface is gone and it is one of {@link insistingOnInterface}. For others a missing
 *   interface proves nothing, because a device with a user-space driver never has one. A plugin
 *   that was killed at its timeout is not executed again.
 * - a failure of {@link leavingNothingOutside} is ignored: all state was in the interface.
 * - a plugin whose device another sandbox has now is not executed: it would reset the device there.
 *   Only its IPAM plugin is, and the last sandbox with the device releases it. While the other one
 *   is being attached, the teardown fails.
 * - `bandwidth` is not executed where it would take another attachment's device: {@link wouldTakeShaping}.
 * - whether others have the path of the namespace is asked again after a plugin that was slow:
 *   plugins then do not get it.
 * - after a plugin that succeeds without a namespace but keeps its address (`host-device`), its
 *   IPAM plugin is executed. What succeeded, or is ignored, is not repeated.
 * @throws CniError naming the network when something is left, HostGoneError when the shim has gone
 */
export async function detachChain(ctx: CallContext, chain: ChainToDetach): Promise<void> {
  try {
    await new ChainTeardown(ctx, chain).run();
  } catch (error) {
    throw withNetworkContext(error, { ...chain, displayName: chain.network });
  }
}

/** After this time, others may have got the path: a plugin or its lock has hung. */
const decisionMs = 1000;

/** A DEL that did not succeed. */
interface FailedDel {
  readonly call: DelegateCall;
  readonly outcome: DelegateOutcome;
  /** See {@link isNotExecutable} and {@link ChainToDetach.ownPath}. */
  readonly isNotExecutable: boolean;
}

/** One whose IPAM plugin was executed, if it can be. */
interface Released {
  readonly failed: FailedDel;
  readonly ofIpam: FailedDel | undefined;
  readonly isAtOnce: boolean;
}

class ChainTeardown {
  readonly #ctx: CallContext;
  readonly #chain: ChainToDetach;
  /** "" once the namespace is known to be gone, or may be another sandbox's. */
  #netns: string;
  /** When it was decided whose the namespace is. */
  #decidedAt: number;
  /** Failed DELs that can be given up. */
  readonly #rest: FailedDel[] = [];
  /** The DEL of the plugin that ended the ADD: those before it never ran. */
  readonly #endedAdd: DelegateCall | undefined;

  constructor(ctx: CallContext, chain: ChainToDetach) {
    const { calls, attachment, netns } = chain;
    this.#ctx = ctx;
    this.#chain = chain;
    this.#netns = netns;
    this.#decidedAt = ctx.startedAt;
    const position = attachment?.failedAdd?.position;
    if (position !== undefined) this.#endedAdd = calls[calls.length - 1 - position];
  }

  async run(): Promise<void> {
    let mayHaveRun = this.#endedAdd === undefined;
    let areAllDone = true;
    for (const call of this.#chain.calls) {
      mayHaveRun ||= call === this.#endedAdd;
      const held = await this.#heldOf(call);
      if (held !== undefined) {
        await this.#leaveDevice(call, held);
        areAllDone = false;
        continue;
      }
      const isLeft = wouldTakeShaping(call, this.#chain);
      const failed = isLeft ? undefined : await this.#detach(call);
      if (failed !== undefined && mayHaveRun) await this.#handle(failed);
      areAllDone &&= this.#rest.length === 0;
      if (areAllDone) this.#chain.onPluginDone?.();
    }
    await this.#giveUp();
  }

  /** The device of a plugin if another sandbox has it now. */
  async #heldOf(call: DelegateCall): Promise<HeldDevice | undefined> {
    await this.#decideNetns();
    return heldDevice(this.#ctx, call, { netns: this.#netns, ifName: this.#chain.ifName });
  }

  /** Decides whose the namespace is, unless that was just decided. */
  async #decideNetns(): Promise<void> {
    const now = this.#ctx.deps.clock();
    if (this.#netns === "" || now - this.#decidedAt <= decisionMs) return;
    this.#decidedAt = now;
    const { ifName, record } = this.#chain;
    const { isAnothers } = await othersAt(this.#ctx, { ifName, netns: this.#netns }, record);
    if (isAnothers) this.#netns = "";
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
    if (failed !== undefined && !failed.isNotExecutable) throw this.#failure(failed);
    const text = `did not release device ${id} with plugin ${quoted(call)}, because ${holder} has the device now`;
    this.#warnDetached(call, "DeviceInUse", { text });
  }

  /** @throws CniError unless the plugin succeeds after all, or can be given up */
  async #handle(failed: FailedDel): Promise<void> {
    const { call } = failed;
    const last = failed.isNotExecutable ? failed : await this.#repeat(failed);
    if (last === undefined || (await this.#succeedsWithConfOfNow(last))) return;
    if (leavingNothingOutside.has(call.type) && (await this.#interfaceIsGone())) return;
    const mayGiveUp = hasAnswered(last) && (call === this.#endedAdd || this.#lacksIpam(last));
    if (!last.isNotExecutable && !mayGiveUp) throw this.#failure(last);
    this.#rest.push(last);
  }

  /** Executes it again without a namespace if it needs none. @returns undefined when it succeeded */
  async #repeat(failed: FailedDel): Promise<FailedDel | undefined> {
    const { call } = failed;
    const isRepeated =
      (await this.#needsNoNamespace(failed)) && (await this.#heldOf(call)) === undefined;
    return isRepeated ? this.#detach(call, "") : failed;
  }

  async #needsNoNamespace({ call, outcome }: FailedDel): Promise<boolean> {
    if (outcome.outcome === "timeout" || this.#netns === "") return false;
    if (insistingOnInterface.has(call.type)) return this.#interfaceIsGone();
    const isGone = await namespaceIsGone(this.#ctx, this.#chain);
    if (isGone) this.#netns = "";
    return isGone;
  }

  async #succeedsWithConfOfNow({ call, outcome }: FailedDel): Promise<boolean> {
    if (outcome.outcome !== "exited") return false;
    const now = await withConfOfNow(this.#ctx, this.#chain, call);
    return now !== undefined && (await this.#detach(now)) === undefined;
  }

  /**
   * Executes a plugin, then its IPAM plugin if it keeps its address without a namespace.
   * @returns undefined when it succeeded
   */
  async #detach(call: DelegateCall, netns?: string): Promise<FailedDel | undefined> {
    const failed = await this.#execute(call, netns);
    if (failed !== undefined || (netns ?? this.#netns) !== "") return failed;
    const ofIpam = await this.#execute(ipamCallAfter(call), "");
    if (ofIpam?.isNotExecutable === false) throw this.#failure(ofIpam);
    if (ofIpam !== undefined) this.#rest.push(ofIpam);
    return undefined;
  }

  /** Gives up what failed. @throws CniError while something may be there, or its grace period lasts */
  async #giveUp(): Promise<void> {
    const [first] = this.#rest;
    if (first === undefined) return;
    if (!(await this.#interfaceIsGone())) {
      const { ifName } = this.#chain;
      const advice = `, and interface ${ifName} may still exist: install the plugin again`;
      throw this.#failure(first, first.isNotExecutable ? advice : "");
    }
    const released: Released[] = [];
    for (const each of this.#rest) released.push(await this.#releaseAddress(each));
    const waiting = released.find(({ isAtOnce }) => !isAtOnce);
    if (waiting !== undefined) this.#requireGraceIsOver(waiting.failed);
    for (const each of released) this.#warn(each);
  }

  /** @throws CniError unless the IPAM plugin succeeds, cannot be executed, or never succeeded in ADD */
  async #releaseAddress(failed: FailedDel): Promise<Released> {
    const { call } = failed;
    const isEnded = call === this.#endedAdd && !failed.isNotExecutable;
    if (isEnded && this.#hasOnlyRefused(failed))
      return { failed, ofIpam: undefined, isAtOnce: true };
    const ofIpam = await this.#execute(ipamCall(call));
    const isLeft = ofIpam !== undefined && !ofIpam.isNotExecutable;
    if (isLeft && !(isEnded && hasAnswered(ofIpam))) throw this.#failure(ofIpam);
    const isAtOnce = isEnded && ofIpam === undefined && keepsOnlyInterface(call);
    return { failed, ofIpam, isAtOnce };
  }

  /** @throws CniError during the grace period */
  #requireGraceIsOver(failed: FailedDel): void {
    const { delGraceMs } = this.#ctx.config;
    const { noteGivenUp = () => Number.POSITIVE_INFINITY } = this.#chain;
    if (noteGivenUp() >= delGraceMs) return;
    const graceSeconds = Math.ceil(delGraceMs / 1000);
    const then = `; Plexus retries, and gives it up ${graceSeconds} s after the first DEL that left nothing else`;
    throw this.#failure(failed, then);
  }

  #warn({ failed, ofIpam, isAtOnce }: Released): void {
    const { call } = failed;
    if (failed.isNotExecutable || call !== this.#endedAdd) {
      const lost = failed.isNotExecutable ? failed : (ofIpam ?? failed);
      const text = `${this.#failure(lost).message}: the attachment counts as detached, because its interface is gone`;
      this.#warnDetached(call, "PluginMissing", { text });
      return;
    }
    const address =
      ofIpam === undefined
        ? ""
        : `; an address may stay allocated: ${this.#failure(ofIpam).message}`;
    const why = this.#chain.attachment?.failedAdd?.message;
    const text = `forgot an attachment that never succeeded and has no interface: ${why}${address}`;
    // At once: the log has the error already.
    const level = isAtOnce ? "debug" : "warn";
    this.#warnDetached(call, "AttachmentForgotten", { text, level });
  }

  /** Logs, and emits an event for the pod, that a plugin failed but the attachment is detached. */
  #warnDetached(
    { type: plugin }: DelegateCall,
    reason: FindingReason,
    { text, level = "warn" }: { readonly text: string; readonly level?: "debug" | "warn" },
  ): void {
    const { network, ifName, record } = this.#chain;
    const message = `network ${network} (${ifName}): ${text}`;
    this.#ctx.logger[level]({ network, ifName, plugin }, message);
    if (record?.pod === undefined) return;
    this.#ctx.deps.events.record(record.pod, { reason, message });
  }

  /** Whether a plugin refused the version in ADD and DEL, which all do before anything else. */
  #hasOnlyRefused(failed: FailedDel): boolean {
    const errors = [this.#chain.attachment?.failedAdd, this.#failure(failed)];
    return errors.every((error) => error?.code === CniErrorCode.IncompatibleCniVersion);
  }

  /**
   * Whether a plugin says, in libcni's words, that its IPAM plugin is not installed. A vendor's `ipam`
   * need not name an executable (`azure-cns`).
   */
  #lacksIpam(failed: FailedDel): boolean {
    const ipam = ipamCall(failed.call);
    const words = `failed to find plugin "${ipam?.type}"`;
    return ipam !== undefined && this.#failure(failed).message.includes(words);
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
    await this.#decideNetns();
    const order = await withoutAddressesOfOthers(this.#ctx, call);
    const { network, budget } = this.#chain;
    // A plugin that hangs must leave time for its IPAM plugin, without which it is not given up.
    const parts = call === this.#endedAdd ? 2 : 1;
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
    const isLost = isNotExecutable(outcome) || (await this.#isMissing(call.type, outcome.outcome));
    return { call, outcome, isNotExecutable: isLost };
  }

  #failure({ call, outcome }: FailedDel, addition = ""): CniError {
    const error = delegateFailure(outcome, call);
    return addition === "" ? error : error.withMessage(`${error.message}${addition}`);
  }
}

/** Whether a plugin was executed, and failed. */
function hasAnswered({ outcome }: FailedDel): boolean {
  return !["missing", "refused", "failed"].includes(outcome.outcome);
}

function quoted({ type }: DelegateCall): string {
  return JSON.stringify(type);
}
