import { performance } from "node:perf_hooks";
import { Engine } from "#engine/engine.ts";
import type { Logger } from "#engine/ports.ts";
import { HostConfFiles, HostDeviceInfoFiles } from "#host/conf-files.ts";
import type { InClusterOptions } from "#kube/api/in-cluster.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { type Cluster, openApi, openManifests } from "./cluster.ts";
import type { DaemonFlags } from "./flags.ts";
import { type HealthServer, startHealthServer } from "./metrics/health-server.ts";
import { createMetrics, type Metrics } from "./metrics/metrics.ts";
import { type NodeConf, startNodeConf } from "./node-conf/node-conf.ts";
import { CallServer } from "./server.ts";
import { openSettings, type Settings } from "./settings.ts";

/** What the process hands in. */
export interface DaemonOptions {
  readonly flags: DaemonFlags;
  readonly logger: Logger;
  readonly setLogLevel: (level: string) => void;
  readonly nodeName: string;
  /** Set in a pod: the way to the cluster's API. */
  readonly inCluster?: InClusterOptions;
}

/** A daemon that serves. */
export interface RunningDaemon {
  /** Serves what is in flight to its end, then lets go of everything. Records and node configuration stay. */
  stop(): Promise<void>;
}

/** Wires the engine to its adapters and serves. @throws Error when something it needs is unusable */
export async function startDaemon(options: DaemonOptions): Promise<RunningDaemon> {
  const { flags, logger } = options;
  const records = await FileRecordStore.open(flags.stateDir);
  const metrics = createMetrics({
    attachments: async () =>
      (await records.list()).records.reduce((sum, record) => sum + record.attachments.length, 0),
  });
  await using resources = new AsyncDisposableStack();
  resources.defer(() => records.flush());
  const settings = resources.adopt(await openSettings({ ...options, metrics }), (s) => s.close());
  const cluster = await openCluster(options, { settings, metrics });
  resources.adopt(cluster, (c) => c.close());
  settings.onInvalid((message) => cluster.configInvalid(message));
  const confFiles = new HostConfFiles();
  const engine = new Engine({
    config: () => settings.current().engine,
    source: cluster.source,
    publisher: cluster.publisher,
    events: cluster.events,
    records,
    confFiles,
    deviceInfo: new HostDeviceInfoFiles(),
    logger,
    metrics: metrics.engine,
    clock: () => performance.now(),
    now: () => new Date().toISOString(),
  });
  const server = await CallServer.listen({ socketPath: flags.socket, engine, logger });
  let draining = false;
  resources.defer(() => server.drain());
  const nodeConf = await keepNodeConf(options, { settings, cluster, metrics, confFiles });
  resources.adopt(nodeConf, (conf) => conf?.stop());
  const readiness = (): string[] => [
    ...(draining ? ["it is stopping"] : []),
    ...[cluster.source.notReadyReason(), nodeConf?.notReadyReason()].flatMap((r) => r ?? []),
  ];
  resources.adopt(await serveHealth({ settings, metrics, readiness }), (health) => health?.close());
  logger.info({ socket: flags.socket, stateDir: flags.stateDir }, "plexusd serves");
  const running = resources.move();
  return {
    stop: () => {
      draining = true;
      return running.disposeAsync();
    },
  };
}

function openCluster(
  options: DaemonOptions,
  parts: { settings: Settings; metrics: Metrics },
): Promise<Cluster> {
  const { flags, logger, nodeName, inCluster } = options;
  if (flags.manifests !== undefined) return openManifests(flags.manifests, logger);
  const { apiTimeoutMs, statusWaitMs } = parts.settings.current();
  return openApi({
    nodeName,
    apiTimeoutMs,
    statusWaitMs,
    logger,
    metrics: parts.metrics.kube,
    ...(flags.kubeconfig === undefined ? {} : { kubeconfig: flags.kubeconfig }),
    ...(inCluster === undefined ? {} : { inCluster }),
  });
}

/** Only where plexusd is a node's CNI: with the API and a configuration, or where the directory is named. */
async function keepNodeConf(
  options: DaemonOptions,
  parts: { settings: Settings; cluster: Cluster; metrics: Metrics; confFiles: HostConfFiles },
): Promise<NodeConf | undefined> {
  const { flags, logger } = options;
  const isNodesCni = flags.manifests === undefined && flags.config !== undefined;
  if (!isNodesCni && flags.cniConfDir === undefined) return undefined;
  const { settings, cluster, metrics } = parts;
  const nodeConf = await startNodeConf({
    config: () => settings.current().nodeConf,
    stateDir: flags.stateDir,
    files: parts.confFiles,
    logger,
    onState(status, before) {
      metrics.confState(status.state);
      cluster.confChanged(status, before);
    },
  });
  metrics.confState(nodeConf.status().state);
  settings.onChange(() => nodeConf.look());
  return nodeConf;
}

async function serveHealth(parts: {
  settings: Settings;
  metrics: Metrics;
  readiness: () => readonly string[];
}): Promise<HealthServer | undefined> {
  const address = parts.settings.current().http;
  if (address === undefined) return undefined;
  return startHealthServer({ address, readiness: parts.readiness, metrics: parts.metrics });
}
