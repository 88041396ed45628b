import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { type NodeConfState, nodeConfStates } from "#daemon/cni-conf/status.ts";
import type { KubeMetrics } from "#kube/adapter.ts";
import { buildInfo } from "#lib/build-info.ts";
import { type CallMetrics, engineMetrics } from "./engine-metrics.ts";
import { kubeMetrics } from "./kube-metrics.ts";

/** The metrics of plexusd. */
export interface Metrics {
  readonly engine: CallMetrics;
  readonly kube: Required<KubeMetrics>;
  nodeConfState(state: NodeConfState): void;
  configRead(result: "ok" | "invalid"): void;
  render(): Promise<{ text: string; contentType: string }>;
}

/** Options of {@link createMetrics}. The counts are read at each request of /metrics. */
export interface MetricsOptions {
  readonly attachments?: () => Promise<number>;
  readonly leftovers?: () => Promise<number>;
  readonly notAttached?: () => Promise<number>;
  /** Event loop, memory and CPU of the process. @default true */
  readonly processMetrics?: boolean;
}

/** Creates the metrics in a new registry. No label contains a pod's name. */
export function createMetrics(options: MetricsOptions = {}): Metrics {
  const registry = new Registry();
  const registers = [registry];
  // A timer measures the event loop's lag. By default it wakes plexusd a hundred times a second.
  if (options.processMetrics ?? true) {
    collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 1000 });
  }
  const { version, commit } = buildInfo();
  new Gauge({
    name: "plexus_build_info",
    help: "The running build; always 1.",
    labelNames: ["version", "commit", "node_version"],
    registers,
  }).set({ version, commit, node_version: process.version }, 1);
  countGauge(registry, {
    name: "plexus_attachments",
    help: "Attachments that are recorded on this node.",
    count: options.attachments,
  });
  countGauge(registry, {
    name: "plexus_leftover_records",
    help: "Recorded sandboxes that no longer exist and are still to be detached.",
    count: options.leftovers,
  });
  countGauge(registry, {
    name: "plexus_pods_not_attached",
    help: "Running pods of this node without networks that they ask for, as they were not attached through Plexus.",
    count: options.notAttached,
  });
  const confReads = new Counter({
    name: "plexus_config_reads_total",
    help: "Readings of a changed configuration file.",
    labelNames: ["result"],
    registers,
  });
  for (const result of ["ok", "invalid"]) confReads.inc({ result }, 0);
  const nodeConfState = new Gauge({
    name: "plexus_conf_state",
    help: "State of the node's CNI configuration: 1 for the one that it is in.",
    labelNames: ["state"],
    registers,
  });
  return {
    engine: engineMetrics(registry),
    kube: kubeMetrics(registry),
    nodeConfState: (state) => {
      for (const each of nodeConfStates) nodeConfState.set({ state: each }, each === state ? 1 : 0);
    },
    configRead: (result) => confReads.inc({ result }),
    render: async () => ({ text: await registry.metrics(), contentType: registry.contentType }),
  };
}

/** A gauge that counts when it is read; no gauge without `count`. */
function countGauge(
  registry: Registry,
  options: {
    readonly name: string;
    readonly help: string;
    readonly count: (() => Promise<number>) | undefined;
  },
): void {
  const { name, help, count } = options;
  if (count === undefined) return;
  new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      // If the state directory cannot be read, the other metrics must still be served.
      this.set(await count().catch(() => Number.NaN));
    },
  });
}
