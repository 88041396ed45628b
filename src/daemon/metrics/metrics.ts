import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { type NodeConfState, nodeConfStates } from "#daemon/node-conf/status.ts";
import type { EngineMetrics } from "#engine/deps.ts";
import type { KubeMetrics } from "#kube/adapter.ts";
import { buildInfo } from "#lib/build-info.ts";
import { LabelLimit } from "./label-limit.ts";

/** Everything that plexusd measures, by the part that reports it. */
export interface Metrics {
  readonly engine: EngineMetrics;
  readonly kube: Required<KubeMetrics>;
  /** The state of the node's CNI configuration is now this one. */
  nodeConfState(state: NodeConfState): void;
  /** The configuration was read again. */
  configRead(result: "ok" | "invalid"): void;
  /** The text of /metrics, and its content type. */
  render(): Promise<{ text: string; contentType: string }>;
}

/** Options of {@link createMetrics}. */
export interface MetricsOptions {
  /** How many attachments are recorded; called when /metrics is requested. */
  readonly attachments?: () => Promise<number>;
  /** Event loop, memory and CPU of the process. @default true */
  readonly processMetrics?: boolean;
}

/** A delegate takes milliseconds; a DHCP server or a queue before an API takes seconds. */
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

const commands = new Set(["ADD", "DEL", "CHECK", "STATUS", "GC", "VERSION"]);

/** Creates the metrics in a registry of their own. No label ever holds a pod's name. */
export function createMetrics(options: MetricsOptions = {}): Metrics {
  const registry = new Registry();
  const registers = [registry];
  // The event loop's lag is measured by a timer: at its default an idle daemon wakes a hundred times a second.
  if (options.processMetrics ?? true) {
    collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 1000 });
  }
  buildInfoGauge(registry);
  attachmentsGauge(registry, options.attachments);
  const confReads = new Counter({
    name: "plexus_config_reads_total",
    help: "Readings of a changed configuration file.",
    labelNames: ["result"],
    registers,
  });
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

function engineMetrics(registry: Registry): EngineMetrics {
  const registers = [registry];
  const requests = new Counter({
    name: "plexus_cni_requests_total",
    help: "Calls of the container runtime; result is success or the CNI error code.",
    labelNames: ["command", "result"],
    registers,
  });
  const duration = new Histogram({
    name: "plexus_cni_request_duration_seconds",
    help: "Duration of calls of the container runtime.",
    labelNames: ["command"],
    buckets: durationBuckets,
    registers,
  });
  const delegates = new Histogram({
    name: "plexus_delegate_duration_seconds",
    help: "Duration of delegates' executions.",
    labelNames: ["command", "plugin_type", "network", "result"],
    buckets: durationBuckets,
    registers,
  });
  const inFlight = new Gauge({
    name: "plexus_inflight_requests",
    help: "Calls that are being served.",
    registers,
  });
  const networks = new LabelLimit(200);
  const types = new LabelLimit(50);
  return {
    requestStarted: () => inFlight.inc(),
    requestEnded: (command, { code, milliseconds }) => {
      inFlight.dec();
      const label = commandLabel(command);
      requests.inc({ command: label, result: code === undefined ? "success" : `code_${code}` });
      duration.observe({ command: label }, milliseconds / 1000);
    },
    delegateEnded: ({ command, type, network, ok, milliseconds }) => {
      const labels = {
        command: commandLabel(command),
        plugin_type: types.label(type),
        network: networks.label(network),
        result: ok ? "success" : "error",
      };
      delegates.observe(labels, milliseconds / 1000);
    },
  };
}

function kubeMetrics(registry: Registry): Required<KubeMetrics> {
  const registers = [registry];
  const synced = new Gauge({
    name: "plexus_apiserver_cache_synced",
    help: "Whether the objects of a resource have been listed.",
    labelNames: ["resource"],
    registers,
  });
  const restarts = new Counter({
    name: "plexus_apiserver_watch_restarts_total",
    help: "Watches of the API that had to be started again, by reason.",
    labelNames: ["resource", "reason"],
    registers,
  });
  const statusWrites = new Counter({
    name: "plexus_status_writes_total",
    help: "Attempts to write pods' annotations, by result.",
    labelNames: ["result"],
    registers,
  });
  const dropped = new Counter({
    name: "plexus_events_dropped_total",
    help: "Events that were not sent, by reason.",
    labelNames: ["reason"],
    registers,
  });
  return {
    cacheSynced: (resource, value) => synced.set({ resource }, value ? 1 : 0),
    watchRestarted: (resource, reason) => restarts.inc({ resource, reason }),
    statusWrite: (result) => statusWrites.inc({ result }),
    eventDropped: (reason) => dropped.inc({ reason }),
  };
}

function buildInfoGauge(registry: Registry): void {
  const { version, commit } = buildInfo();
  new Gauge({
    name: "plexus_build_info",
    help: "The running build; always 1.",
    labelNames: ["version", "commit", "node"],
    registers: [registry],
  }).set({ version, commit, node: process.version }, 1);
}

function attachmentsGauge(registry: Registry, count: MetricsOptions["attachments"]): void {
  if (count === undefined) return;
  new Gauge({
    name: "plexus_attachments",
    help: "Attachments that are recorded on this node.",
    registers: [registry],
    async collect() {
      // A state directory that cannot be read must not take the other metrics away.
      this.set(await count().catch(() => Number.NaN));
    },
  });
}

/** A runtime may send anything. */
function commandLabel(command: string): string {
  return commands.has(command) ? command : "other";
}
