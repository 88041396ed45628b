import {
  type DelegateCall,
  type DelegateOutcome,
  type RunDelegate,
  wasExecuted,
} from "#cni/runtime/delegate.ts";
import type { EngineMetrics } from "#engine/ports/engine-deps.ts";
import type { DelegateHost } from "#engine/ports/host.ts";
import type { Trace } from "./trace.ts";

const stderrMax = 64 * 1024;

type Execution = Parameters<EngineMetrics["delegateEnded"]>[0];

/** Executes the delegates of a call; collects their trace, metrics and stderr (CNI 1.0.0 §4). */
export class CallDelegates {
  readonly #host: DelegateHost;
  readonly #trace: Trace;
  readonly #networks = new Set<string>();
  #executions: Execution[] = [];
  #stderr = "";

  constructor(host: DelegateHost, trace: Trace) {
    this.#host = host;
    this.#trace = trace;
  }

  get networks(): string[] {
    return [...this.#networks];
  }

  get stderr(): string {
    return this.#stderr;
  }

  runner(network: string): RunDelegate {
    return (call) => this.#run(network, call);
  }

  /** Records the metrics of the executions so far. Call it when nothing waits for the call. */
  recordMetrics(metrics: EngineMetrics): void {
    for (const execution of this.#executions) metrics.delegateEnded(execution);
    this.#executions = [];
  }

  async #run(network: string, call: DelegateCall): Promise<DelegateOutcome> {
    const { type, env } = call;
    this.#networks.add(network);
    const plugin = `${type} (${network})`;
    const outcome = await this.#trace.phase(`order ${plugin}`, () => this.#host.exec(call));
    if (!wasExecuted(outcome)) return outcome;
    const milliseconds = outcome.elapsedUs / 1000;
    this.#trace.add(`delegate ${plugin}`, milliseconds);
    const ok = outcome.outcome === "exited" && outcome.code === 0;
    const command = env.CNI_COMMAND ?? "";
    this.#executions.push({ command, type, network, ok, milliseconds });
    this.#stderr = (this.#stderr + outcome.stderr).slice(0, stderrMax);
    return outcome;
  }
}
