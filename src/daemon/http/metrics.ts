import { collectDefaultMetrics, Registry } from "prom-client";
import { type NodeConfState, nodeConfStates } from "#daemon/cni-conf/status.ts";
import type { HotPlugMetrics } from "#daemon/pods/hot-plug.ts";
import type { KubeMetrics } from "#kube/metric-labels.ts";
import { buildInfo } from "#lib/build-info.ts";
import { type LifeState, lifeStates } from "#serving/life.ts";
import { type CallMetrics, engineMetrics } from "./engine-metrics.ts";
import { kubeMetrics } from "./kube-metrics.ts";
import { type CountName, metric } from "./metric-table.ts";

export interface Metrics {
  readonly engine: CallMetrics;
  readonly kube: KubeMetrics;
  readonly hotPlug: HotPlugMetrics;
  nodeConfState(state: NodeConfState): void;
  /** The changed configuration file was read again, and is in effect or invalid. */
  configReloaded(isValid: boolean): void;
  /** Exports counts, each computed when it is read. */
  count(counts: Partial<Counts>): void;
  render(): Promise<{ text: string; contentType: string }>;
}

/** How long a count and the text are shared: scrapes by any local user must not take the time of pods. */
const sharedMs = { count: 5000, text: 1000 };

/** How things are counted, by the metric's name; undefined where there are none. */
export type Counts = Readonly<Record<CountName, () => Promise<number | undefined>>>;

export interface MetricsOptions {
  /** @default serving */
  readonly state?: () => LifeState;
  /** Event loop, memory and CPU of the process. @default true */
  readonly processMetrics?: boolean;
  /** Milliseconds, monotonic. @default performance.now */
  readonly clock?: () => number;
}

/** Creates the metrics in a new registry. No label contains a pod's name. */
export function createMetrics(options: MetricsOptions = {}): Metrics {
  const registry = new Registry();
  // A timer measures the event loop's lag. By default it wakes plexusd a hundred times a second.
  if (options.processMetrics ?? true) {
    collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 1000 });
  }
  const { version, commit } = buildInfo();
  const build = { version, commit, node_version: process.version };
  metric(registry, "plexus_build_info").set(build, 1);
  const clock = options.clock ?? ((): number => performance.now());
  const states = metric(registry, "plexus_state", async () => {
    const current = (options.state ?? (() => "serving"))();
    for (const each of lifeStates) states.set({ state: each }, each === current ? 1 : 0);
  });
  const nodeConfState = metric(registry, "plexus_conf_state");
  return {
    engine: engineMetrics(registry),
    kube: kubeMetrics(registry),
    hotPlug: hotPlugMetrics(registry),
    nodeConfState: (state) => {
      for (const each of nodeConfStates) nodeConfState.set({ state: each }, each === state ? 1 : 0);
    },
    configReloaded: configReloads(registry),
    count(counts) {
      for (const [name, count] of Object.entries(counts)) {
        // If the state directory cannot be read, the other metrics must still be served.
        const make = (): ReturnType<typeof count> => count().catch(() => Number.NaN);
        const counted = shared(make, { clock, forMs: sharedMs.count });
        const gauge = metric(registry, name as CountName, async () => {
          const value = await counted();
          if (value === undefined) gauge.remove();
          else gauge.set(value);
        });
      }
    },
    render: shared(
      async () => ({ text: await registry.metrics(), contentType: registry.contentType }),
      { clock, forMs: sharedMs.text },
    ),
  };
}

/** Both gauges that Prometheus exports about its own configuration. plexusd starts only with a valid one. */
function configReloads(registry: Registry): Metrics["configReloaded"] {
  const successful = metric(registry, "plexus_config_last_reload_successful");
  const successTime = metric(registry, "plexus_config_last_reload_success_timestamp_seconds");
  const reloaded = (isValid: boolean): void => {
    successful.set(isValid ? 1 : 0);
    if (isValid) successTime.setToCurrentTime();
  };
  reloaded(true);
  return reloaded;
}

/** What all callers share, those at the same time and those of the next milliseconds. */
function shared<T>(
  make: () => Promise<T>,
  { clock, forMs }: { readonly clock: () => number; readonly forMs: number },
): () => Promise<T> {
  let latest: Promise<T> | undefined;
  let validUntil = Infinity;
  return () => {
    if (latest !== undefined && clock() < validUntil) return latest;
    validUntil = Infinity;
    latest = make().finally(() => {
      validUntil = clock() + forMs;
    });
    return latest;
  };
}

function hotPlugMetrics(registry: Registry): HotPlugMetrics {
  const operations = metric(registry, "plexus_hotplug_operations_total");
  const seconds = metric(registry, "plexus_hotplug_seconds");
  return {
    operationEnded: ({ op, result }) => operations.inc({ op, result }),
    statusWritten: (milliseconds) => seconds.observe(milliseconds / 1000),
  };
}
