import { Counter, Histogram, type Registry } from "prom-client";
import type { HotPlugMetrics } from "#daemon/pods/hot-plug.ts";

/** KubeVirt migrates a machine whose interface is not shown within ten seconds. */
const buckets = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** Metrics of the networks that are plugged into running pods and unplugged. */
export function hotPlugMetrics(registry: Registry): HotPlugMetrics {
  const registers = [registry];
  const operations = new Counter({
    name: "plexus_hotplug_operations_total",
    help: "Networks of running pods that were plugged (add) or unplugged (remove).",
    labelNames: ["op", "result"],
    registers,
  });
  const seconds = new Histogram({
    name: "plexus_hotplug_seconds",
    help: "Time from the delivery of an edited annotation to the written network-status.",
    buckets,
    registers,
  });
  return {
    operationEnded: ({ op, result }) => operations.inc({ op, result }),
    statusWritten: (milliseconds) => seconds.observe(milliseconds / 1000),
  };
}
