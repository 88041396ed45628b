import { HostGoneError } from "#engine/ports.ts";
import type { CallHost } from "./call.ts";
import { CallDelegates } from "./call-delegates.ts";
import type { CallContext, EngineDeps } from "./deps.ts";
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

/** Tools where there is no call, so that nothing can be executed. @param find looks plugins up @default refuses */
export function toolsWithoutCall(deps: EngineDeps, find: CallHost["find"] = refuse): CallTools {
  const gone = new AbortController().signal;
  return callTools(deps, { gone, exec: refuse, netlink: refuse, forgetMultus: refuse, find });
}

async function refuse(): Promise<never> {
  throw new HostGoneError("there is no call, so nothing is executed");
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
