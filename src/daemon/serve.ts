import type { Reports } from "#daemon/admin/admin-answers.ts";
import { startReportServer } from "#daemon/admin/admin-server.ts";
import { reportSocketPath } from "#daemon/admin/node-status.ts";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import { startHealthServer } from "#daemon/http/health-server.ts";
import type { HealthServer } from "#daemon/http/http-server.ts";
import type { Metrics } from "#daemon/http/metrics.ts";
import { startMetricsServer } from "#daemon/http/metrics-server.ts";
import type { Logger } from "#engine/ports.ts";
import type { Cluster } from "./cluster.ts";

/** Health and metrics for the node itself; undefined where they are switched off. */
export async function serveHealth(parts: {
  config: EffectiveConfig;
  metrics: Metrics;
  readiness: () => readonly string[];
}): Promise<HealthServer | undefined> {
  const address = parts.config.current().http;
  if (address === undefined) return undefined;
  return startHealthServer({ address, readiness: parts.readiness, metrics: parts.metrics });
}

/** @throws Error when metrics are to be served to callers with a right, and no API can be asked for it */
export async function serveMetrics(parts: {
  config: EffectiveConfig;
  metrics: Metrics;
  cluster: Cluster;
  logger: Logger;
}): Promise<HealthServer | undefined> {
  const { metricsAddress: address } = parts.config.current();
  if (address === undefined) return undefined;
  const { accessReview: review } = parts.cluster;
  if (review === undefined) {
    throw new Error("metricsAddress: needs the Kubernetes API, which is asked who may read them");
  }
  return startMetricsServer({ address, review, metrics: parts.metrics, logger: parts.logger });
}

/** Answers for plexusctl. */
export function serveReports(
  reports: Reports,
  { socket, logger }: { readonly socket: string; readonly logger: Logger },
): Promise<{ close(): Promise<void> }> {
  return startReportServer({
    socketPath: reportSocketPath(socket),
    explain: (pod) => reports.pod(pod),
    claimedDevices: (pod) => reports.claimedDevices(pod),
    nodeReport: () => reports.node(),
    logger,
  });
}
