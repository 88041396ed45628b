import { collectDefaultMetrics, type Gauge, Registry } from "prom-client";
import { type NodeConfState, nodeConfStates } from "#daemon/cni-conf/status.ts";
import type { HotPlugMetrics } from "#daemon/pods/hot-plug.ts";
import type { KubeMetrics } from "#kube/metric-labels.ts";
import { buildInfo } from "#lib/build-info.ts";
import { type LifeState, lifeStates } from "#serving/life.ts";
import { type CallMetrics, engineMetrics } from "./engine-metrics.ts";
import { kubeMetrics } from "./kube-metrics.ts";
import { type CountName, type Labels, type ListName, metric } from "./metric-table.ts";

export interface Metrics {
  readonly engine: CallMetrics;
  readonly kube: KubeMetrics;
  readonly hotPlug: HotPlugMetrics;
  nodeConfState(state: NodeConfState): void;
  /** The changed configuration file was read again, and is in effect or invalid. */
  configReloaded(isValid: boolean): void;
  /** Exports counts, each computed when it is read. */
  count(counts: Partial<Counts>): void;
  /** Exports lists, each made when it is read. */
  list(lists: Partial<Lists>): void;
  render(): Promise<{ text: string; contentType: string }>;
}

/** How long readers share the text: scrapes by any local user must not take the time of pods. */
const sharedMs = 1000;

/** How things are counted, by the metric's name; undefined where there are none. */
export type Counts = Readonly<Record<CountName, () => Promise<number | undefined>>>;

/** What there is, by the metric's name. */
export type Lists = { readonly [N in ListName]: () => Promise<readonly Labels<N>[]> };

/** Creates the metrics in a new registry. */
export function createMetrics(state: () => LifeState): Metrics {
  const registry = new Registry();
  // A timer measures the event loop's lag. By default it wakes plexusd a hundred times a second.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 1000 });
  const { version, commit } = buildInfo();
  const build = { version, commit, node_version: process.version };
  metric(registry, "plexus_build_info").set(build, 1);
  const states = metric(registry, "plexus_state", async () => {
    const current = state();
    for (const each of lifeStates) states.set({ state: each }, each === current ? 1 : 0);
  });
  const nodeConfState = metric(registry, "plexus_conf_state");
  return {
    engine: engineMetrics(registry),
    kube: kubeMetrics(registry),
    hotPlug: hotPlugMetrics(registry),
    nodeConfState: (current) => {
      for (const each of nodeConfStates)
        nodeConfState.set({ state: each }, each === current ? 1 : 0);
    },
    configReloaded: configReloads(registry),
    count(counts) {
      for (const [name, count] of Object.entries(counts)) {
        // If the state directory cannot be read, the other metrics must still be served.
        const gauge = metric(registry, name as CountName, async () => {
          const value = await count().catch(() => Number.NaN);
          if (value === undefined) gauge.remove();
          else gauge.set(value);
        });
      }
    },
    list(lists) {
      for (const [name, list] of Object.entries(lists)) {
        const gauge: Gauge = metric(registry, name as ListName, async () => {
          gauge.reset();
          for (const labels of await list().catch(() => [])) gauge.set({ ...labels }, 1);
        });
      }
    },
    render: shared(async () => {
      return { text: await registry.metrics(), contentType: registry.contentType };
    }),
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

/** What all callers share, those at the same time and those of the next second. */
function shared<T>(make: () => Promise<T>): () => Promise<T> {
  let latest: Promise<T> | undefined;
  let validUntil = Infinity;
  return () => {
    if (latest !== undefined && performance.now() < validUntil) return latest;
    validUntil = Infinity;
    latest = make().finally(() => {
      validUntil = performance.now() + sharedMs;
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
