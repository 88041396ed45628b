import type { RunDelegate } from "#cni/runtime/delegate.ts";
import type { EngineDeps } from "./deps.ts";
import type { DelegateHost } from "./ports.ts";
import type { Trace } from "./trace.ts";

/** Delegates' stderr is passed on up to this many characters a call. */
const stderrMax = 64 * 1024;

/** Runs delegates through the call's host; what they say on stderr goes to ours (CNI 1.0.0 §4). */
export function delegateRunner(call: {
  readonly deps: EngineDeps;
  readonly host: DelegateHost;
  readonly trace: Trace;
  readonly stderr: string[];
  /** Gets every network that a delegate was run for. */
  readonly networks: Set<string>;
}): (network: string) => RunDelegate {
  let room = stderrMax;
  return (network) => async (order) => {
    const command = order.env.CNI_COMMAND ?? "";
    call.networks.add(network);
    const outcome = await call.host.exec(order);
    const milliseconds = outcome.elapsedUs / 1000;
    const ok = outcome.outcome === "exited" && outcome.code === 0;
    call.trace.add(`delegate ${order.type} (${network})`, milliseconds);
    call.deps.metrics.delegateEnded({ command, type: order.type, network, ok, milliseconds });
    if (outcome.stderr !== "" && room > 0) {
      call.stderr.push(outcome.stderr.slice(0, room));
      room -= outcome.stderr.length;
    }
    return outcome;
  };
}
