import { type CniError, defectIn } from "#cni/error.ts";
import { type CallTools, sandboxFields } from "#engine/call/call-context.ts";
import {
  type Call,
  type CallAnswer,
  type CallOutcome,
  declinedExitCode,
} from "#engine/ports/call.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { shortened } from "#lib/one-line.ts";

/** A call that has ended. */
export interface FinishedCall extends Pick<CallTools, "trace" | "delegates" | "notes"> {
  readonly call: Call;
  readonly outcome: CallOutcome;
  readonly milliseconds: number;
}

/** Of what went wrong: a plugin's words may be long, and the runtime, which has them all, retries. */
const messageMax = 300;

/** Records a call's metrics, and writes its one log line, with the cause of a failure. */
export function logCall(finished: FinishedCall, { metrics, logger }: EngineDeps): void {
  const { call, outcome, milliseconds, delegates, notes } = finished;
  const { command } = call;
  const durationMs = Math.round(milliseconds * 10) / 10;
  const fields = { ...sandboxFields(call), command, networks: delegates.networks, durationMs };
  delegates.recordMetrics(metrics);
  if (outcome.status === "succeeded") {
    metrics.requestEnded(command, { milliseconds });
    // The runtime also sends a DEL after each failed ADD, and repeats successful DELs.
    logger[notes.hadNothing ? "debug" : "info"](fields, `${command} done`);
    return;
  }
  const { error } = outcome;
  const { code, reason } = error;
  metrics.requestEnded(command, { milliseconds, code });
  const err = defectIn(new AggregateError([error, ...notes.notRolledBack]));
  const text = failureText(error, notes.notRolledBack);
  logger.error(omitUndefined({ ...fields, code, reason, err }), `${command} failed: ${text}`);
}

/** The error, and what its rollback left; together of the length of one. */
function failureText({ text }: CniError, notRolledBack: readonly CniError[]): string {
  const left = notRolledBack.map((error) => error.text).join("; ");
  const note = left === "" ? "" : `; stays recorded: ${shortened(left, messageMax / 3)}`;
  return `${shortened(text, messageMax - note.length)}${note}`;
}

/** What the shim prints; with PLEXUS_TRACE=1 the phases follow on stderr. */
export function answerOf({ call, outcome, delegates, trace }: FinishedCall): CallAnswer {
  trace.add("answer", 0);
  const isDeclined = outcome.status === "failed" && outcome.error.reason === "DaemonUnavailable";
  return {
    exitCode: isDeclined ? declinedExitCode : outcome.status === "succeeded" ? 0 : 1,
    stdout: outcome.stdout,
    stderr: delegates.stderr + (call.isTraced ? trace.format(call.startedUs) : ""),
  };
}
