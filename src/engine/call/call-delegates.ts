import type { DelegateCall, DelegateOutcome, RunDelegate } from "#cni/runtime/delegate.ts";
import type { DelegateHost } from "#engine/ports.ts";
import type { EngineMetrics } from "./deps.ts";
import type { Trace } from "./trace.ts";

/** How many characters of the delegates' stderr one call passes on. */
const stderrMax = 64 * 1024;

/** What the delegates of one call are executed with. */
interface CallDelegatesOptions {
  readonly host: DelegateHost;
  readonly trace: Trace;
  readonly metrics: EngineMetrics;
}

/**
 * Executes the delegates of one call through its shim. Each execution is traced and measured; the
 * delegates' stderr is collected, as it goes to the runtime with the shim's own (CNI 1.0.0 §4).
 */
export class CallDelegates {
  readonly #options: CallDelegatesOptions;
  readonly #networks = new Set<string>();
  #stderr = "";

  constructor(options: CallDelegatesOptions) {
    this.#options = options;
  }

  /** The networks for which a delegate was to be executed. */
  get networks(): string[] {
    return [...this.#networks];
  }

  /** What the delegates printed on stderr. */
  get stderr(): string {
    return this.#stderr;
  }

  /** Executes the delegates of one network. */
  runner(network: string): RunDelegate {
    return (call) => this.#run(network, call);
  }

  async #run(network: string, call: DelegateCall): Promise<DelegateOutcome> {
    const { host, trace, metrics } = this.#options;
    const { type, env } = call;
    this.#networks.add(network);
    const outcome = await host.exec(call);
    const milliseconds = outcome.elapsedUs / 1000;
    const ok = outcome.outcome === "exited" && outcome.code === 0;
    trace.add(`delegate ${type} (${network})`, milliseconds);
    const command = env.CNI_COMMAND ?? "";
    // The next order goes first.
    setImmediate(() => metrics.delegateEnded({ command, type, network, ok, milliseconds }));
    this.#stderr = (this.#stderr + outcome.stderr).slice(0, stderrMax);
    return outcome;
  }
}
