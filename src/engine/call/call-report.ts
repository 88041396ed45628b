import { omitUndefined } from "#lib/omit-undefined.ts";
import type { Call, CallAnswer, CallOutcome } from "./call.ts";
import type { CallDelegates } from "./call-delegates.ts";
import type { EngineDeps } from "./deps.ts";
import type { Trace } from "./trace.ts";

/** A call that has ended, with everything that is reported about it. */
interface FinishedCall {
  readonly call: Call;
  readonly outcome: CallOutcome;
  readonly milliseconds: number;
  readonly delegates: CallDelegates;
  readonly trace: Trace;
}

/** Reports a call to the operator: its metrics, and one log line, which has the causes of a failure. */
export function reportCall(finished: FinishedCall, { metrics, logger }: EngineDeps): void {
  const { call, outcome, milliseconds, delegates } = finished;
  const command = call.env.CNI_COMMAND ?? "";
  const fields = {
    ...callFields(call),
    command,
    networks: delegates.networks,
    durationMs: Math.round(milliseconds * 10) / 10,
  };
  if (outcome.status === "succeeded") {
    metrics.requestEnded(command, { milliseconds });
    logger.info(fields, `${command} done`);
  } else {
    const { error } = outcome;
    metrics.requestEnded(command, { milliseconds, code: error.code });
    logger.error(
      { ...fields, code: error.code, err: error },
      `${command} failed: ${error.message}`,
    );
  }
}

/** What the runtime gets; with PLEXUS_TRACE=1 the duration of each phase follows on stderr. */
export function answerCall({ call, outcome, delegates, trace }: FinishedCall): CallAnswer {
  const phases = call.env.PLEXUS_TRACE === "1" ? trace.format() : "";
  return {
    exitCode: outcome.status === "succeeded" ? 0 : 1,
    stdout: outcome.stdout,
    stderr: delegates.stderr + phases,
  };
}

/** The fields of every log line of a call: its sandbox and pod, never its configuration or environment. */
export function callFields({ env }: Call): Partial<Record<string, string>> {
  const args = new Map((env.CNI_ARGS ?? "").split(";").map(splitPair));
  return omitUndefined({
    containerId: env.CNI_CONTAINERID || undefined,
    ifName: env.CNI_IFNAME || undefined,
    podNamespace: args.get("K8S_POD_NAMESPACE") || undefined,
    podName: args.get("K8S_POD_NAME") || undefined,
  });
}

function splitPair(pair: string): [string, string] {
  const equals = pair.indexOf("=");
  return equals < 0 ? [pair, ""] : [pair.slice(0, equals), pair.slice(equals + 1)];
}
