import { SandboxListFile, sandboxListPath } from "#cri/sandbox-list-file.ts";
import { AdminAnswers } from "#daemon/admin/admin-answers.ts";
import { startAdminServer } from "#daemon/admin/admin-server.ts";
import { adminSocketPath } from "#daemon/admin/node-status.ts";
import { type NodeConf, startNodeConf } from "#daemon/cni-conf/cni-conf.ts";
import { readPlexusConf } from "#daemon/cni-conf/conf-dir.ts";
import { nodeConfEvent } from "#daemon/cni-conf/node-conf-event.ts";
import { type EffectiveConfig, openEffectiveConfig } from "#daemon/config/effective-config.ts";
import { type Counts, createMetrics, type Metrics } from "#daemon/http/metrics.ts";
import { type NodeDuties, type NodeDutiesOptions, nodeDuties } from "#daemon/pods/duties.ts";
import { HostDeviceInfoFiles } from "#devices/device-info-files.ts";
import { ClaimedDevices } from "#devices/dra/claimed-devices.ts";
import { KubeletDevices } from "#devices/kubelet-devices.ts";
import { noSandboxHosts } from "#engine/empty-ports.ts";
import { Engine } from "#engine/engine.ts";
import type { SandboxHosts } from "#engine/hotplug/sandbox-hosts.ts";
import type { DeviceSource } from "#engine/plan/devices/device-ports.ts";
import type { Logger, PodName } from "#engine/ports.ts";
import { readBootId } from "#host/boot-id.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { readHostView } from "#host/host-view.ts";
import { HostMultusFiles } from "#host/multus-files.ts";
import type { InClusterOptions } from "#kube/api/in-cluster.ts";
import { tokenGauges } from "#kube/api/token-times.ts";
import type { NodeEvent } from "#kube/events/event-recorder.ts";
import { bootClockMs } from "#lib/boot-clock.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { CallServer, type IdleOptions } from "#serving/call-server.ts";
import { Housekeeping } from "#serving/housekeeping.ts";
import { type Cluster, openApiCluster, openFilesCluster, openManifestCluster } from "./cluster.ts";
import type { DaemonFlags } from "./flags.ts";
import { handBackNode } from "./hand-back.ts";
import { housekeepingTasks } from "./housekeeping-tasks.ts";
import { startHttpServers } from "./http/serve.ts";
import { selfTest } from "./self-test/self-test.ts";
import { standaloneCredentials } from "./standalone-credentials.ts";
import { StandaloneFiles } from "./standalone-files.ts";

/** Options of {@link startDaemon}. */
export interface DaemonOptions {
  readonly flags: DaemonFlags;
  readonly logger: Logger;
  readonly setLogLevel: (level: string) => void;
  readonly nodeName: string;
  /** The pod that plexusd runs in, if any. */
  readonly ownPod?: PodName;
  readonly inCluster?: InClusterOptions;
  /** With the socket of systemd, which starts plexusd for the first call. */
  readonly onDemand?: { readonly inherited: number; readonly idle?: IdleOptions };
  /** From now on calls can be in flight: plexusd must end by {@link RunningDaemon.stop}. */
  readonly onServing: () => void;
}

/** A running plexusd. */
export interface RunningDaemon {
  /**
   * Finishes the calls in flight. Records stay, and so does the node's CNI configuration unless
   * Plexus was deleted.
   */
  stop(): Promise<void>;
}

/** What the parts of plexusd work with. */
interface Parts extends DaemonOptions {
  readonly records: FileRecordStore;
  readonly metrics: Metrics;
  readonly config: EffectiveConfig;
  readonly cluster: Cluster;
  readonly confFiles: HostConfFiles;
}

/** Connects the engine to its adapters and serves calls. @throws Error when it cannot start */
export async function startDaemon(options: DaemonOptions): Promise<RunningDaemon> {
  const { flags, logger } = options;
  const records = await FileRecordStore.open(flags.stateDir);
  const metrics = createMetrics({
    counts: {
      plexus_attachments: async () =>
        (await records.list()).records.reduce((sum, record) => sum + record.attachments.length, 0),
      plexus_leftover_records: () => engine.countLeftovers(),
      plexus_pods_not_attached: async () => duties?.unattachedPods.count ?? 0,
      plexus_hotplug_pending: async () => duties?.hotPlug.pending ?? 0,
      plexus_interfaces_lost: async () => duties?.lostInterfaces.count ?? 0,
      plexus_attachments_outdated: async () => duties?.hotPlug.outdated ?? 0,
      ...tokenGauges(flags.stateDir),
    } satisfies Counts,
  });
  await using resources = new AsyncDisposableStack();
  resources.defer(() => records.flush());
  const config = await openEffectiveConfig({ ...options, metrics });
  resources.defer(() => config.close());
  const cluster = await openCluster({ ...options, config, metrics });
  resources.adopt(cluster, (c) => c.close());
  config.onInvalid((problem) => cluster.recordOnNode(invalidConfiguration(problem)));
  const view = await readHostView();
  const confFiles = new HostConfFiles(view);
  const parts = { ...options, records, metrics, config, cluster, confFiles };
  const devices = openDeviceSources(parts, resources);
  const engine = await newEngine(parts, Object.values(devices));
  const standaloneFiles = await openStandaloneFiles(parts);
  const calls = flags.thin ? callsElsewhere(standaloneFiles) : await serveCalls(parts, engine);
  let draining = false;
  let isDeleted: Promise<boolean> | undefined;
  // After the last call and the last write of the node's CNI configuration.
  resources.defer(async () => {
    if (await isDeleted) await handBackNode({ ...parts, stateDir: flags.stateDir });
  });
  resources.defer(() => calls.drain());
  const nodeConf = await startNodeConfIfNeeded(parts);
  const readiness = (): string[] => [
    ...(draining ? ["it is stopping"] : []),
    ...[cluster.source, nodeConf, calls].flatMap((part) => part?.notReadyReason() ?? []),
  ];
  // Pods expect to be attached only where plexusd is the node's CNI.
  const duties = nodeConf && openDuties({ ...parts, readiness, engine, calls });
  const answers = new AdminAnswers({
    ...{ ...parts, engine, calls, view, nodeConf, readiness },
    claims: devices.claims,
    duties,
    callsInFlight: metrics.engine.callsInFlight,
  });
  const socketPath = adminSocketPath(flags.socket);
  const admin = await startAdminServer({ socketPath, answers, logger });
  resources.defer(() => admin.close({ dropConnections: true }));
  // Before the sockets are closed: to the uninstaller, an open socket says that it still runs.
  resources.adopt(nodeConf, (conf) => conf?.stop());
  const served = { ...parts, engine, sockets: [calls, admin], duties, standaloneFiles };
  const housekeeping = new Housekeeping(housekeepingTasks(served), logger);
  config.onChange(() => housekeeping.runNow());
  resources.defer(() => housekeeping.stop());
  resources.defer(() => duties?.hotPlug.stop());
  await startHttpServers(resources, { ...parts, config: config.current(), readiness });
  logger.info({ socket: flags.socket, stateDir: flags.stateDir }, calls.started);
  const running = resources.move();
  return {
    stop: () => {
      draining = true;
      // At once: the permission to ask may be the next to be deleted.
      isDeleted = nodeConf && cluster.node?.ownDaemonSet?.isDeleted();
      return running.disposeAsync();
    },
  };
}

function invalidConfiguration(problem: string): NodeEvent {
  const message = `${problem}; plexusd keeps the previous configuration, but does not start again with this one: correct the ConfigMap plexus-config`;
  return { type: "Warning", reason: "InvalidConfiguration", message };
}

function openDuties({ engine, calls, ...parts }: DutiesOptions): NodeDuties | undefined {
  const { config, confFiles, metrics } = parts;
  const conf = () => readPlexusConf(config.current().nodeConf.cniConfDir, confFiles);
  const hotPlug = { engine, conf, metrics: metrics.hotPlug };
  return nodeDuties({ ...parts, hosts: calls.sandboxHosts, hotPlug });
}

interface DutiesOptions extends Parts, Pick<NodeDutiesOptions, "readiness"> {
  readonly engine: Engine;
  readonly calls: Calls;
}

/** What the rest of plexusd needs of that which serves the calls. */
interface Calls
  extends Pick<CallServer, "findByAgent" | "notReadyReason" | "ensureReachable" | "drain"> {
  readonly sandboxHosts: SandboxHosts;
  /** For the log. */
  readonly started: string;
}

async function serveCalls(parts: Parts, engine: Engine): Promise<Calls> {
  const { flags, logger, onDemand, onServing } = parts;
  const options = { socketPath: flags.socket, engine, logger, ...onDemand };
  // On demand, a call waits already.
  if (onDemand === undefined) await selfTest({ dir: `${flags.socket}.test`, logger });
  onServing();
  const calls = await CallServer.listen(options);
  return {
    started: "plexusd serves calls",
    sandboxHosts: calls.sandboxHosts,
    findByAgent: calls.findByAgent,
    notReadyReason: () => calls.notReadyReason(),
    ensureReachable: () => calls.ensureReachable(),
    drain: () => calls.drain(),
  };
}

/** Without a socket of plexusd, the shim starts plexus-standalone. */
function callsElsewhere(files: StandaloneFiles): Calls {
  const nothing = async (): Promise<undefined> => undefined;
  return {
    started: "plexusd leaves the calls to plexus-standalone",
    sandboxHosts: noSandboxHosts,
    findByAgent: nothing,
    notReadyReason: () => files.notReadyReason(),
    ensureReachable: nothing,
    drain: nothing,
  };
}

/** With --thin, writes the files before the node's CNI configuration names the shim. */
async function openStandaloneFiles(parts: Parts): Promise<StandaloneFiles> {
  const { flags, config, nodeName, logger } = parts;
  const files = new StandaloneFiles({
    ...{ stateDir: flags.stateDir, nodeName, logger },
    binDirs: () => config.current().nodeConf.binDirs,
    config: () => config.text(),
    ...standaloneCredentials(parts),
  });
  // Housekeeping tries again, and the readiness has the reason.
  if (flags.thin) await files.refresh().catch(() => undefined);
  return files;
}

async function newEngine(parts: Parts, deviceSources: readonly DeviceSource[]): Promise<Engine> {
  const { flags, records, metrics, config, cluster, confFiles, logger } = parts;
  const bootId = await readBootId();
  return new Engine({
    config: () => config.current().engine,
    ...(cluster.definitions === undefined
      ? { source: cluster.source }
      : { definitions: cluster.definitions }),
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
  { logger, config, cluster }: Parts,
  resources: AsyncDisposableStack,
): { readonly kubelet?: DeviceSource; readonly claims?: DeviceSource } {
  const { resourceApi: api } = cluster;
  if (api === undefined) return {};
  const { kubeletDir } = config.current();
  const kubelet = new KubeletDevices({ kubeletDir, logger });
  resources.defer(() => kubelet.close());
  return { kubelet, claims: new ClaimedDevices({ api, kubeletDir, logger }) };
}

function openCluster(parts: Pick<Parts, keyof DaemonOptions | "config" | "metrics">) {
  const { flags, logger, nodeName, ownPod, inCluster, config, metrics } = parts;
  const { source } = flags;
  if (source.kind === "manifests") return openManifestCluster(source.dir, logger);
  if (source.kind === "files") return openFilesCluster(logger);
  const { apiTimeoutMs, statusWaitMs } = config.current();
  const { kubeconfig } = source;
  const required = { nodeName, apiTimeoutMs, statusWaitMs, logger, metrics: metrics.kube };
  return openApiCluster({ ...required, ...omitUndefined({ kubeconfig, inCluster, ownPod }) });
}

/** Only if plexusd is the node's CNI: with an API and a configuration file, or --cni-conf-dir. */
async function startNodeConfIfNeeded(parts: Parts): Promise<NodeConf | undefined> {
  const { flags, logger, config, cluster, metrics, confFiles } = parts;
  const isNodeCni = flags.source.kind === "api" && flags.config !== undefined;
  if (!isNodeCni && flags.cniConfDir === undefined) return undefined;
  const nodeConf = await startNodeConf({
    spec: () => config.current().nodeConf,
    stateDir: flags.stateDir,
    files: confFiles,
    logger,
    onChange(status, before) {
      metrics.nodeConfState(status.state);
      const event = nodeConfEvent(status, before);
      if (event !== undefined) cluster.recordOnNode(event);
    },
  });
  metrics.nodeConfState(nodeConf.status().state);
  config.onChange(() => nodeConf.reconcileNow());
  return nodeConf;
}
