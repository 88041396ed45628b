import { CniErrorCode } from "#cni/error.ts";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { reportedError } from "#cni/runtime/delegate-error.ts";
import type { FailedAdd } from "#engine/record/record.ts";

const messageMax = 1024;

/** Codes of errors that may disappear without a change of the configuration. */
const temporaryCodes: ReadonlySet<number> = new Set([
  CniErrorCode.UnknownContainer,
  CniErrorCode.IoFailure,
  CniErrorCode.InvalidNetns,
  CniErrorCode.TryAgainLater,
  CniErrorCode.PluginNotAvailable,
  CniErrorCode.LimitedConnectivity,
]);

/**
 * Words of errors about the node, a server or another process. ADD and DEL may both fail with such
 * an error after the ADD attached something, so it is not taken for a refusal. A needless word here
 * only costs a grace period.
 */
const temporaryWords = new Set(
  (
    "dial connect connection refused reset timeout deadline canceled aborted interrupted killed unavailable available unreachable " +
    "down busy locked lock conflict modified already again temporary temporarily space permission denied permitted " +
    "read-only absent exist exists ready running i/o eof http https rpc server context"
  ).split(" "),
);

/** The same with two words. */
const temporaryPhrases = /\b(?:timed out|time out|not found|no such|in use)\b/i;

/** The error of the plugin that ended an ADD, with its position; undefined if it printed none. */
export function failedAddOf(outcome: DelegateOutcome, position: number): FailedAdd | undefined {
  const error = reportedError(outcome);
  if (error === undefined) return undefined;
  return { position, code: error.code, message: error.message.slice(0, messageMax) };
}

/** Whether a plugin's DEL fails as its ADD did, with an error about the configuration only. */
export function isRefusal(failedAdd: FailedAdd | undefined, del: DelegateOutcome): boolean {
  const error = failedAddOf(del, 0);
  if (failedAdd === undefined || error === undefined) return false;
  const isSame = error.code === failedAdd.code && error.message === failedAdd.message;
  return isSame && refusesConfiguration(del);
}

/** Whether a plugin fails with an error about its configuration only. */
export function refusesConfiguration(outcome: DelegateOutcome): boolean {
  const error = failedAddOf(outcome, 0);
  return error !== undefined && !temporaryCodes.has(error.code) && !isTemporary(error.message);
}

function isTemporary(message: string): boolean {
  const words = message.toLowerCase().split(/[^a-z/-]/);
  return temporaryPhrases.test(message) || words.some((word) => temporaryWords.has(word));
}

/** Why an attachment whose plugin failed in ADD and DEL is forgotten. */
export function forgottenText(
  failedAdd: FailedAdd | undefined,
  del: {
    readonly call: DelegateCall;
    readonly outcome: DelegateOutcome;
    /** Why its address could not be released. */
    readonly notReleased: Error | undefined;
  },
): string {
  const plugin = JSON.stringify(del.call.type);
  const why = isRefusal(failedAdd, del.outcome)
    ? `plugin ${plugin} refuses its configuration (${failedAdd?.message}); fix the definition, or the node`
    : `plugin ${plugin} failed in ADD (${failedAdd?.message}) and in every DEL since then`;
  const { notReleased } = del;
  const address =
    notReleased === undefined ? "" : `; an address may stay allocated: ${notReleased.message}`;
  return `forgot an attachment that never succeeded and has no interface: ${why}${address}`;
}
