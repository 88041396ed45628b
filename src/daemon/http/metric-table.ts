import { Counter, Gauge, Histogram, type Registry } from "prom-client";

/** What is known about one metric. @internal */
export interface MetricRow {
  /** "count": a gauge that is counted when it is read. "list": one whose series are. */
  readonly type: "counter" | "gauge" | "histogram" | "count" | "list";
  readonly help: string;
  readonly labelNames?: readonly string[];
  readonly buckets?: number[];
}

/** A delegate takes milliseconds; a DHCP server or a busy API takes seconds. */
const callBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** KubeVirt migrates a machine whose interface is not shown within ten seconds. */
const hotPlugBuckets = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** All metrics of plexusd; `make docs` writes docs/operations/metrics.md from it. @internal */
export const metricTable = {
  plexus_cni_requests_total: {
    type: "counter",
    labelNames: ["command", "result"],
    help: "Calls of the container runtime; result is success or the CNI error code.",
  },
  plexus_cni_request_duration_seconds: {
    type: "histogram",
    labelNames: ["command"],
    buckets: callBuckets,
    help: "Duration of calls of the container runtime.",
  },
  plexus_delegate_duration_seconds: {
    type: "histogram",
    labelNames: ["command", "plugin_type", "network", "result"],
    buckets: callBuckets,
    help: "Duration of each plugin execution.",
  },
  plexus_broken_assertions_total: {
    type: "counter",
    labelNames: ["assertion"],
    help: "What plexusd asserts of itself and found false: a defect of Plexus. Its log has the state.",
  },
  plexus_inflight_requests: { type: "gauge", help: "Calls that are being served." },
  plexus_attachments: { type: "count", help: "Attachments that are recorded on this node." },
  plexus_leftover_records: {
    type: "count",
    help: "Recorded sandboxes that no longer exist and are still to be detached.",
  },
  plexus_next_plugins_missing: {
    type: "count",
    help: "Plugins after Plexus's in the node's CNI configuration that are not installed, so that pods fail, or with CRI-O start without Plexus.",
  },
  plexus_pods_not_attached: {
    type: "count",
    help: "Running pods of this node without networks that they ask for, because they started before Plexus, or because their annotation is invalid.",
  },
  plexus_hotplug_operations_total: {
    type: "counter",
    labelNames: ["op", "result"],
    help: "Networks of running pods that were plugged (add) or unplugged (remove).",
  },
  plexus_hotplug_seconds: {
    type: "histogram",
    buckets: hotPlugBuckets,
    help: "Time from the delivery of an edited annotation to the written network-status.",
  },
  plexus_hotplug_pending: {
    type: "count",
    help: "Running pods whose networks are not those of their annotation yet.",
  },
  plexus_interfaces_lost: {
    type: "count",
    help: "Networks of running pods whose interface has disappeared, with inspect: [interfaces] or [heal].",
  },
  plexus_attachments_outdated: {
    type: "count",
    help: "Attachments of running pods whose definition has changed since they were made.",
  },
  plexus_lost_definitions: {
    type: "count",
    help: "NetworkAttachmentDefinitions that were deleted with their CRD, and that plexusd still serves.",
  },
  plexus_networks: {
    type: "list",
    labelNames: ["network", "usable"],
    help: "1 for each definition with plexus.dev/schedule, and whether it can be used on this node; absent without networkPlacement.",
  },
  plexus_attachment_info: {
    type: "list",
    labelNames: ["namespace", "pod", "interface", "network"],
    help: "1 for each interface of a pod, up to 1,000 of them.",
  },
  plexus_standalone_token_age_seconds: {
    type: "count",
    help: "Time since the token that plexus-standalone uses was issued; absent without one.",
  },
  plexus_standalone_token_remaining_seconds: {
    type: "count",
    help: "Time until that token expires; negative after that.",
  },
  plexus_state: {
    type: "gauge",
    labelNames: ["state"],
    help: "State of plexusd: 1 for the one that it is in; serving is the healthy one.",
  },
  plexus_conf_state: {
    type: "gauge",
    labelNames: ["state"],
    help: "State of the node's CNI configuration: 1 for the one that it is in; active is the healthy one.",
  },
  plexus_config_last_reload_successful: {
    type: "gauge",
    help: "1 if the configuration file is valid and in effect, 0 if plexusd rejected its last change.",
  },
  plexus_config_last_reload_success_timestamp_seconds: {
    type: "gauge",
    help: "When the configuration in effect was read, as a Unix time.",
  },
  plexus_apiserver_cache_synced: {
    type: "gauge",
    labelNames: ["resource"],
    help: "Whether the objects of a resource have been listed.",
  },
  plexus_apiserver_cache_updated_timestamp_seconds: {
    type: "gauge",
    labelNames: ["resource"],
    help: "When the API server last sent an object of a resource or a bookmark, which it does every minute, as a Unix time.",
  },
  plexus_apiserver_watch_restarts_total: {
    type: "counter",
    labelNames: ["resource", "reason"],
    help: "Watches of the API that had to be started again, by reason.",
  },
  plexus_status_writes_total: {
    type: "counter",
    labelNames: ["result"],
    help: "Attempts to write pods' annotations, by result.",
  },
  plexus_events_dropped_total: {
    type: "counter",
    labelNames: ["reason"],
    help: "Events that were not sent, by reason.",
  },
  plexus_build_info: {
    type: "gauge",
    labelNames: ["version", "commit", "node_version"],
    help: "The running build; always 1.",
  },
} as const satisfies Readonly<Record<string, MetricRow>>;

type MetricName = keyof typeof metricTable;

type Row<N extends MetricName> = (typeof metricTable)[N];
type Label<R> = R extends { readonly labelNames: readonly (infer L extends string)[] } ? L : never;

type NameOf<T extends MetricRow["type"]> = {
  [N in MetricName]: Row<N>["type"] extends T ? N : never;
}[MetricName];
export type CountName = NameOf<"count">;
export type ListName = NameOf<"list">;
/** The labels of a list's series. */
export type Labels<N extends MetricName> = Readonly<Record<Label<Row<N>>, string>>;

const classes = { counter: Counter, gauge: Gauge, count: Gauge, list: Gauge, histogram: Histogram };

type Metric<N extends MetricName, L extends string = Label<Row<N>>> = {
  counter: Counter<L>;
  gauge: Gauge<L>;
  count: Gauge<L>;
  list: Gauge<L>;
  histogram: Histogram<L>;
}[Row<N>["type"]];

/** Registers a metric of {@link metricTable}; `collect` is called before each reading. */
export function metric<N extends MetricName>(
  registry: Registry,
  name: N,
  collect?: () => Promise<void>,
): Metric<N> {
  const { type, ...row }: MetricRow = metricTable[name];
  const options = { ...row, name, registers: [registry], ...(collect && { collect }) };
  return new classes[type](options) as Metric<N>;
}
