import { CniErrorCode } from "#cni/error.ts";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { reportedError } from "#cni/runtime/delegate-error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import type { EngineConfig } from "#engine/config.ts";
import type { FailedAdd } from "#engine/record/record.ts";
import type { ChainToDetach } from "./chain-to-detach.ts";

/** The longest message that a record keeps. */
const messageMax = 1024;

/** Codes that say something about the moment, not about the configuration. */
const passingCodes: ReadonlySet<number> = new Set([
  CniErrorCode.UnknownContainer,
  CniErrorCode.IoFailure,
  CniErrorCode.InvalidNetns,
  CniErrorCode.TryAgainLater,
  CniErrorCode.PluginNotAvailable,
  CniErrorCode.LimitedConnectivity,
]);

/**
 * Words of errors about the node, a server or another process. Such an error may be the same in ADD and DEL, and the ADD
 * may have attached something before it, so it passes for no refusal. A word too many here costs a grace period.
 */
const passingWords = new Set(
  (
    "dial connect connection refused reset timeout deadline canceled aborted interrupted killed unavailable available unreachable " +
    "down busy locked lock conflict modified already again temporary temporarily space permission denied permitted " +
    "read-only absent exist exists ready running i/o eof http https rpc server context"
  ).split(" "),
);

/** The same of two words. */
const passingPhrases = /\b(?:timed out|time out|not found|no such|in use)\b/i;

/** What is recorded of an ADD that the plugin at this position of its chain ended; undefined where that was no error of its own. */
export function failedAddOf(outcome: DelegateOutcome, position: number): FailedAdd | undefined {
  const error = reportedError(outcome);
  if (error === undefined) return undefined;
  return { position, code: error.code, message: error.message.slice(0, messageMax) };
}

/**
 * Whether a plugin refuses its configuration: its DEL ends with the error of its ADD, and nothing in that
 * speaks of anything but the configuration.
 */
export function isRefusal(failedAdd: FailedAdd | undefined, del: DelegateOutcome): boolean {
  const error = failedAddOf(del, 0);
  if (failedAdd === undefined || error === undefined) return false;
  const { code, message } = failedAdd;
  if (error.code !== code || error.message !== message) return false;
  return !passingCodes.has(code) && !mayPass(message);
}

/** Whether an error may be gone without a change of the configuration. */
function mayPass(message: string): boolean {
  const words = message.toLowerCase().split(/[^a-z/-]/);
  return passingPhrases.test(message) || words.some((word) => passingWords.has(word));
}

/** What of a chain's DELs need not succeed, as a plugin ended the ADD with an error. */
export class FailedAddRules {
  readonly #chain: Pick<ChainToDetach, "calls" | "failedAdd">;
  /** Whether DELs have failed for so long that the attachment need not be detached. */
  readonly graceIsOver: boolean;

  constructor(
    chain: Pick<ChainToDetach, "calls" | "failedAdd" | "failingMs">,
    { failedAddGraceMs }: Pick<EngineConfig, "failedAddGraceMs">,
  ) {
    this.#chain = chain;
    this.graceIsOver = chain.failingMs !== undefined && chain.failingMs >= failedAddGraceMs;
  }

  /** Whether the ADD ended before the plugin of this DEL ran. */
  neverRan(del: DelegateCall): boolean {
    return this.#pluginsAfter(del) > 0;
  }

  /** Whether the plugin of this DEL ended the ADD. */
  isOf(del: DelegateCall): boolean {
    return this.#pluginsAfter(del) === 0;
  }

  /** Whether this DEL may fail if the interface is gone. */
  mayForget(del: DelegateCall, outcome: DelegateOutcome): boolean {
    return this.isOf(del) && (this.graceIsOver || isRefusal(this.#chain.failedAdd, outcome));
  }

  /** How many plugins the one of this DEL stands after the one that ended the ADD; NaN where none did. */
  #pluginsAfter(del: DelegateCall): number {
    const { calls, failedAdd } = this.#chain;
    return calls.length - 1 - calls.indexOf(del) - (failedAdd?.position ?? Number.NaN);
  }
}

/** Logs that an attachment is forgotten whose plugin failed in ADD and DEL, and emits the event of its pod. */
export function reportForgotten(
  { logger, deps }: CallContext,
  {
    network,
    ifName,
    pod,
    failedAdd,
  }: Pick<ChainToDetach, "network" | "ifName" | "pod" | "failedAdd">,
  del: {
    readonly call: DelegateCall;
    readonly outcome: DelegateOutcome;
    /** Why its address could not be released. */
    readonly notReleased: Error | undefined;
  },
): void {
  const plugin = JSON.stringify(del.call.type);
  const why = isRefusal(failedAdd, del.outcome)
    ? `plugin ${plugin} refuses its configuration (${failedAdd?.message}); fix the definition`
    : `plugin ${plugin} failed in ADD (${failedAdd?.message}) and in every DEL since then`;
  const address =
    del.notReleased === undefined
      ? ""
      : `; an address may stay allocated: ${del.notReleased.message}`;
  const what = "forgot an attachment that never succeeded and has no interface";
  const message = `network ${network} (${ifName}): ${what}: ${why}${address}`;
  logger.warn({ network, ifName, plugin: del.call.type }, message);
  if (pod === undefined) return;
  deps.events.record(pod, { type: "Warning", reason: "AttachmentForgotten", message });
}
