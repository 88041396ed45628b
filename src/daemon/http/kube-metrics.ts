import { Counter, Gauge, type Registry } from "prom-client";
import {
  eventDropReasons,
  type KubeMetrics,
  restartReasons,
  statusWriteResults,
} from "#kube/metric-labels.ts";

/** API metrics. All series exist from the start: an alert misses the first failure in a new one. */
export function kubeMetrics(registry: Registry): KubeMetrics {
  const registers = [registry];
  const synced = new Gauge({
    name: "plexus_apiserver_cache_synced",
    help: "Whether the objects of a resource have been listed.",
    labelNames: ["resource"],
    registers,
  });
  const updated = new Gauge({
    name: "plexus_apiserver_cache_updated_timestamp_seconds",
    help: "When the API server last listed the objects of a resource or sent one, as a Unix time.",
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
  for (const result of statusWriteResults) statusWrites.inc({ result }, 0);
  for (const reason of eventDropReasons) dropped.inc({ reason }, 0);
  return {
    cacheSynced: (resource, value) => {
      synced.set({ resource }, value ? 1 : 0);
      for (const reason of restartReasons) restarts.inc({ resource, reason }, 0);
    },
    cacheUpdated: (resource) => updated.setToCurrentTime({ resource }),
    watchRestarted: (resource, reason) => restarts.inc({ resource, reason }),
    statusWrite: (result) => statusWrites.inc({ result }),
    eventDropped: (reason) => dropped.inc({ reason }),
  };
}
