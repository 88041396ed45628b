import { SandboxListFile, sandboxListPath } from "#cri/sandbox-list-file.ts";
import { AdminAnswers } from "#daemon/admin/admin-answers.ts";
import { startAdminServer } from "#daemon/admin/admin-server.ts";
import { adminSocketPath } from "#daemon/admin/node-status.ts";
import { type NodeConf, startNodeConf } from "#daemon/cni-conf/cni-conf.ts";
import { type EffectiveConfig, openEffectiveConfig } from "#daemon/config/effective-config.ts";
import { createMetrics, type Metrics } from "#daemon/http/metrics.ts";
import { nodeDuties } from "#daemon/pods/duties.ts";
import { HostDeviceInfoFiles } from "#devices/device-info-files.ts";
import { ClaimedDevices } from "#devices/dra/claimed-devices.ts";
import { KubeletDevices } from "#devices/kubelet-devices.ts";
import type { EngineDeps } from "#engine/call/deps.ts";
import { Engine } from "#engine/engine.ts";
import type { DeviceSource } from "#engine/plan/devices/device-ports.ts";
import type { Logger } from "#engine/ports.ts";
import { readBootId } from "#host/boot-id.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { readHostView } from "#host/host-view.ts";
import { HostMultusFiles } from "#host/multus-files.ts";
import type { InClusterOptions } from "#kube/api/in-cluster.ts";
import { bootClockMs } from "#lib/boot-clock.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { CallServer } from "#serving/call-server.ts";
import { Housekeeping } from "#serving/housekeeping.ts";
import { type Cluster, openApiCluster, openManifestCluster } from "./cluster.ts";
import type { DaemonFlags } from "./flags.ts";
import { type HousekeepingOptions, housekeepingTasks } from "./housekeeping-tasks.ts";
import { startHttpServers } from "./http/serve.ts";

/** Options of {@link startDaemon}. */
export interface DaemonOptions {
  readonly flags: DaemonFlags;
  readonly logger: Logger;
  readonly setLogLevel: (level: string) => void;
  readonly nodeName: string;
  readonly inCluster?: InClusterOptions;
}

/** A running plexusd. */
export interface RunningDaemon {
  /** Finishes the calls in flight. Records and the node's CNI configuration stay. */
  stop(): Promise<void>;
}

/** Connects the engine to its adapters and serves calls. @throws Error when it cannot start */
export async function startDaemon(options: DaemonOptions): Promise<RunningDaemon> {
  const { flags, logger } = options;
  const records = await FileRecordStore.open(flags.stateDir);
  const metrics = createMetrics({
    attachments: async () =>
      (await records.list()).records.reduce((sum, record) => sum + record.attachments.length, 0),
    leftovers: () => engine.countLeftovers(),
    notAttached: async () => duties?.unattachedPods.count ?? 0,
  });
  await using resources = new AsyncDisposableStack();
  resources.defer(() => records.flush());
  const config = resources.adopt(await openEffectiveConfig({ ...options, metrics }), (c) =>
    c.close(),
  );
  const cluster = await openCluster(options, { config, metrics });
  resources.adopt(cluster, (c) => c.close());
  config.onInvalid((message) => cluster.configInvalid(message));
  const view = await readHostView();
  const confFiles = new HostConfFiles(view);
  const devices = openDeviceSources(options, { config, cluster, resources });
  const engine = await newEngine(options, {
    ...{ records, metrics, config, cluster, confFiles },
    deviceSources: Object.values(devices),
  });
  const calls = await CallServer.listen({ socketPath: flags.socket, engine, logger });
  let draining = false;
  resources.defer(() => calls.drain());
  const nodeConf = await startNodeConfIfNeeded(options, { config, cluster, metrics, confFiles });
  resources.adopt(nodeConf, (conf) => conf?.stop());
  const readiness = (): string[] => [
    ...(draining ? ["it is stopping"] : []),
    ...[cluster.source, nodeConf, calls].flatMap((part) => part?.notReadyReason() ?? []),
  ];
  // Pods expect to be attached only where plexusd is the node's CNI.
  const duties = nodeConf && nodeDuties({ cluster, config, records, readiness, logger });
  const answers = new AdminAnswers({
    ...{ engine, records, cluster, config, confFiles, view, nodeConf, readiness },
    claims: devices.claims,
    nodeName: options.nodeName,
    stateDir: flags.stateDir,
    unattachedPods: () => duties?.unattachedPods.count ?? 0,
    callsInFlight: metrics.engine.callsInFlight,
  });
  const socketPath = adminSocketPath(flags.socket);
  const admin = await startAdminServer({ socketPath, answers, logger });
  resources.defer(() => admin.close({ dropConnections: true }));
  const sockets = [calls, admin];
  const housekeeping = startHousekeeping(options, {
    ...{ config, engine, records, sockets, confFiles, duties },
  });
  resources.adopt(housekeeping, (each) => each.stop());
  const http = { config: config.current(), metrics, cluster, readiness, logger };
  await startHttpServers(resources, http);
  logger.info({ socket: flags.socket, stateDir: flags.stateDir }, "plexusd serves calls");
  const running = resources.move();
  return {
    stop: () => {
      draining = true;
      return running.disposeAsync();
    },
  };
}

async function newEngine(
  { flags, logger }: DaemonOptions,
  parts: Pick<EngineDeps, "records" | "confFiles" | "deviceSources"> & {
    readonly metrics: Metrics;
    readonly config: EffectiveConfig;
    readonly cluster: Cluster;
  },
): Promise<Engine> {
  const { records, metrics, config, cluster, confFiles, deviceSources } = parts;
  const bootId = await readBootId();
  return new Engine({
    config: () => config.current().engine,
    source: cluster.source,
    publisher: cluster.publisher,
    events: cluster.events,
    records,
    confFiles,
    multusFiles: new HostMultusFiles(defaultPaths.cniStateDir),
    deviceInfo: new HostDeviceInfoFiles(),
    deviceSources,
    runtimeSandboxes: new SandboxListFile(sandboxListPath(flags.socket)),
    logger,
    metrics: metrics.engine,
    clock: bootClockMs,
    now: () => new Date().toISOString(),
    bootId: () => bootId,
    repeatsTeardowns: true,
  });
}

/** Only pods of an API have allocated devices. */
function openDeviceSources(
  { logger }: DaemonOptions,
  parts: { config: EffectiveConfig; cluster: Cluster; resources: AsyncDisposableStack },
): { readonly kubelet?: DeviceSource; readonly claims?: DeviceSource } {
  const { resourceApi: api } = parts.cluster;
  if (api === undefined) return {};
  const { kubeletDir } = parts.config.current();
  const kubelet = new KubeletDevices({ kubeletDir, logger });
  parts.resources.defer(() => kubelet.close());
  return { kubelet, claims: new ClaimedDevices({ api, kubeletDir, logger }) };
}

/** Also runs all tasks when the configuration changes. */
function startHousekeeping(
  options: DaemonOptions,
  parts: Omit<HousekeepingOptions, "flags" | "nodeName" | "logger" | "inCluster">,
): Housekeeping {
  const { flags, nodeName, logger, inCluster } = options;
  const own = { flags, nodeName, logger, ...omitUndefined({ inCluster }) };
  const tasks = housekeepingTasks({ ...parts, ...own });
  const housekeeping = new Housekeeping(tasks, logger);
  parts.config.onChange(() => housekeeping.runNow());
  return housekeeping;
}

function openCluster(
  options: DaemonOptions,
  parts: { config: EffectiveConfig; metrics: Metrics },
): Promise<Cluster> {
  const { flags, logger, nodeName, inCluster } = options;
  const { source } = flags;
  if (source.kind === "manifests") return openManifestCluster(source.dir, logger);
  const { apiTimeoutMs, statusWaitMs } = parts.config.current();
  const { kubeconfig } = source;
  const required = { nodeName, apiTimeoutMs, statusWaitMs, logger, metrics: parts.metrics.kube };
  return openApiCluster({ ...required, ...omitUndefined({ kubeconfig, inCluster }) });
}

/** Only if plexusd is the node's CNI: with an API and a configuration file, or --cni-conf-dir. */
async function startNodeConfIfNeeded(
  options: DaemonOptions,
  parts: { config: EffectiveConfig; cluster: Cluster; metrics: Metrics; confFiles: HostConfFiles },
): Promise<NodeConf | undefined> {
  const { flags, logger } = options;
  const isNodeCni = flags.source.kind === "api" && flags.config !== undefined;
  if (!isNodeCni && flags.cniConfDir === undefined) return undefined;
  const { config, cluster, metrics } = parts;
  const nodeConf = await startNodeConf({
    spec: () => config.current().nodeConf,
    stateDir: flags.stateDir,
    files: parts.confFiles,
    logger,
    onChange(status, before) {
      metrics.nodeConfState(status.state);
      cluster.nodeConfChanged(status, before);
    },
  });
  metrics.nodeConfState(nodeConf.status().state);
  config.onChange(() => nodeConf.reconcileNow());
  return nodeConf;
}
