import type { Cluster } from "#daemon/cluster.ts";
import type { DaemonConfig } from "#daemon/config/config.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { Life } from "#serving/life.ts";
import { startHealthServer } from "./health-server.ts";
import type { Metrics } from "./metrics.ts";
import { startMetricsServer } from "./metrics-server.ts";

/** Starts the configured servers. @throws Error when one cannot listen, or has no API to ask */
export async function startHttpServers(options: {
  readonly life: Life;
  readonly config: Pick<DaemonConfig, "http" | "metricsAddress">;
  readonly metrics: Metrics;
  readonly cluster: Cluster;
  readonly readiness: () => readonly string[];
  readonly logger: Logger;
}): Promise<void> {
  const { life, config, cluster } = options;
  const { http, metricsAddress } = config;
  if (http !== undefined) {
    const start = () => startHealthServer({ ...options, address: http });
    await life.start({ name: "health server", start, stop: (server) => server.close() });
  }
  if (metricsAddress === undefined) return;
  const { accessReview: review } = cluster;
  if (review === undefined) {
    throw new Error("metricsAddress: needs the Kubernetes API, which authorizes the callers");
  }
  const start = () => startMetricsServer({ ...options, address: metricsAddress, review });
  await life.start({ name: "metrics server", start, stop: (server) => server.close() });
}
