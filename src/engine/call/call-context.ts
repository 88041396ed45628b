import type { CallContext, EngineDeps } from "#engine/deps.ts";
import type { CallHost } from "./call.ts";
import { CallDelegates } from "./call-delegates.ts";
import { Trace } from "./trace.ts";

/** What a call is served with. */
export interface CallTools {
  readonly host: CallHost;
  /** By {@link EngineDeps.clock}. */
  readonly startedAt: number;
  readonly trace: Trace;
  readonly delegates: CallDelegates;
}

/** The tools of a call that arrives now. */
export function callTools({ clock, metrics }: EngineDeps, host: CallHost): CallTools {
  const startedAt = clock();
  const trace = new Trace(clock);
  return { host, startedAt, trace, delegates: new CallDelegates({ host, trace, metrics }) };
}

/** What the functions that serve a call work with. */
export function callContext(
  deps: EngineDeps,
  { host, startedAt, trace, delegates }: CallTools,
  call: Pick<CallContext, "config" | "logger" | "netnsState">,
): CallContext {
  return {
    deps,
    host,
    startedAt,
    trace,
    delegateRunner: (network) => delegates.runner(network),
    signal: host.gone,
    ...call,
  };
}
