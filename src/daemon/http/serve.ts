import type { Cluster } from "#daemon/cluster.ts";
import type { DaemonConfig } from "#daemon/config/config.ts";
import type { Logger } from "#engine/ports.ts";
import { startHealthServer } from "./health-server.ts";
import type { HealthServer } from "./http-server.ts";
import type { Metrics } from "./metrics.ts";
import { startMetricsServer } from "./metrics-server.ts";

/** What {@link startHttpServers} serves. */
export interface HttpServersOptions {
  readonly config: Pick<DaemonConfig, "http" | "metricsAddress">;
  readonly metrics: Metrics;
  readonly cluster: Cluster;
  readonly readiness: () => readonly string[];
  readonly logger: Logger;
}

/** Starts the configured servers. @throws Error when one cannot listen, or has no API to ask */
export async function startHttpServers(
  resources: AsyncDisposableStack,
  { config, metrics, cluster, readiness, logger }: HttpServersOptions,
): Promise<void> {
  const adopt = (server: HealthServer): unknown => resources.adopt(server, () => server.close());
  const { http, metricsAddress } = config;
  if (http !== undefined) adopt(await startHealthServer({ address: http, readiness, metrics }));
  if (metricsAddress === undefined) return;
  const { accessReview: review } = cluster;
  if (review === undefined) {
    throw new Error("metricsAddress: needs the Kubernetes API, which authorizes the callers");
  }
  adopt(await startMetricsServer({ address: metricsAddress, review, metrics, logger }));
}
