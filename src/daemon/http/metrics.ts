import { collectDefaultMetrics, Gauge, type GaugeConfiguration, Registry } from "prom-client";
import { type NodeConfState, nodeConfStates } from "#daemon/cni-conf/status.ts";
import type { HotPlugMetrics } from "#daemon/pods/hot-plug.ts";
import type { KubeMetrics } from "#kube/metric-labels.ts";
import { buildInfo } from "#lib/build-info.ts";
import { type CallMetrics, engineMetrics } from "./engine-metrics.ts";
import { hotPlugMetrics } from "./hot-plug-metrics.ts";
import { kubeMetrics } from "./kube-metrics.ts";

/** The metrics of plexusd. */
export interface Metrics {
  readonly engine: CallMetrics;
  readonly kube: KubeMetrics;
  readonly hotPlug: HotPlugMetrics;
  nodeConfState(state: NodeConfState): void;
  /** The changed configuration file was read again, and is in effect or invalid. */
  configReloaded(isValid: boolean): void;
  render(): Promise<{ text: string; contentType: string }>;
}

/** How long a count is shared: scrapes by any local user must not take the time of pods. */
const sharedMs = 5000;

/** What is counted for requests of /metrics. */
const counted = {
  plexus_attachments: "Attachments that are recorded on this node.",
  plexus_leftover_records: "Recorded sandboxes that no longer exist and are still to be detached.",
  plexus_pods_not_attached:
    "Running pods of this node without networks that they ask for, as they were not attached through Plexus.",
  plexus_hotplug_pending: "Running pods whose networks are not those of their annotation yet.",
  plexus_interfaces_lost: "Networks of running pods without their interface, if heal is not false.",
  plexus_attachments_outdated:
    "Attachments of running pods whose definition has changed since they were made.",
  plexus_standalone_token_age_seconds:
    "Time since the token that plexus-standalone uses was issued; absent without one.",
  plexus_standalone_token_remaining_seconds: "Time until that token expires; negative after that.",
};

/** How things are counted, by the metric's name; undefined where there are none. */
type Counts = Record<keyof typeof counted, () => Promise<number | undefined>>;

/** Options of {@link createMetrics}. */
export interface MetricsOptions {
  readonly counts?: Partial<Counts>;
  /** Event loop, memory and CPU of the process. @default true */
  readonly processMetrics?: boolean;
  /** Milliseconds, monotonic. @default performance.now */
  readonly clock?: () => number;
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
  const clock = options.clock ?? ((): number => performance.now());
  for (const [name, count] of Object.entries(options.counts ?? {})) {
    countGauge({ name, help: counted[name as keyof Counts], registers }, shared(count, clock));
  }
  const nodeConfState = new Gauge({
    name: "plexus_conf_state",
    help: "State of the node's CNI configuration: 1 for the one that it is in.",
    labelNames: ["state"],
    registers,
  });
  return {
    engine: engineMetrics(registry),
    kube: kubeMetrics(registry),
    hotPlug: hotPlugMetrics(registry),
    nodeConfState: (state) => {
      for (const each of nodeConfStates) nodeConfState.set({ state: each }, each === state ? 1 : 0);
    },
    configReloaded: configReloads(registers),
    render: async () => ({ text: await registry.metrics(), contentType: registry.contentType }),
  };
}

/** Both gauges that Prometheus exports about its own configuration. plexusd starts only with a valid one. */
function configReloads(registers: Registry[]): Metrics["configReloaded"] {
  const successful = new Gauge({
    name: "plexus_config_last_reload_successful",
    help: "Whether the configuration file is valid and in effect.",
    registers,
  });
  const successTime = new Gauge({
    name: "plexus_config_last_reload_success_timestamp_seconds",
    help: "When the configuration in effect was read, as a Unix time.",
    registers,
  });
  const reloaded = (isValid: boolean): void => {
    successful.set(isValid ? 1 : 0);
    if (isValid) successTime.setToCurrentTime();
  };
  reloaded(true);
  return reloaded;
}

/** A count that all callers share, those at the same time and those of the next seconds. */
function shared(count: Counts[keyof Counts], clock: () => number): Counts[keyof Counts] {
  let latest: ReturnType<typeof count> | undefined;
  let validUntil = Infinity;
  return () => {
    if (latest !== undefined && clock() < validUntil) return latest;
    validUntil = Infinity;
    // If the state directory cannot be read, the other metrics must still be served.
    latest = count()
      .catch(() => Number.NaN)
      .finally(() => {
        validUntil = clock() + sharedMs;
      });
    return latest;
  };
}

/** A gauge that counts when it is read. */
function countGauge(gauge: GaugeConfiguration<never>, count: Counts[keyof Counts]): void {
  new Gauge({
    ...gauge,
    async collect() {
      const value = await count();
      if (value === undefined) this.remove();
      else this.set(value);
    },
  });
}
