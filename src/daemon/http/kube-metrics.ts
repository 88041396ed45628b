import type { Registry } from "prom-client";
import {
  eventDropReasons,
  type KubeMetrics,
  restartReasons,
  statusWriteResults,
} from "#kube/metric-labels.ts";
import { metric } from "./metric-table.ts";

/** API metrics. All series exist from the start: an alert misses the first failure in a new one. */
export function kubeMetrics(registry: Registry): KubeMetrics {
  const synced = metric(registry, "plexus_apiserver_cache_synced");
  const updated = metric(registry, "plexus_apiserver_cache_updated_timestamp_seconds");
  const restarts = metric(registry, "plexus_apiserver_watch_restarts_total");
  const statusWrites = metric(registry, "plexus_status_writes_total");
  const dropped = metric(registry, "plexus_events_dropped_total");
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
