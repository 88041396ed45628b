import { join } from "node:path";
import { AdminAnswers } from "#daemon/admin/admin-answers.ts";
import { startAdminServer } from "#daemon/admin/admin-server.ts";
import { NodeConf } from "#daemon/cni-conf/cni-conf.ts";
import { nodeConfEvent } from "#daemon/cni-conf/status.ts";
import { type EffectiveConfig, openEffectiveConfig } from "#daemon/config/effective-config.ts";
import { invalidConfiguration } from "#daemon/config/invalid-configuration.ts";
import { healthAddress, metricsAddress } from "#daemon/config/listen-address.ts";
import { type Counts, createMetrics, type Metrics } from "#daemon/http/metrics.ts";
import { ClaimedDevices } from "#devices/dra/claimed-devices.ts";
import { KubeletDevices } from "#devices/kubelet-devices.ts";
import type { PodName } from "#engine/ports/cluster.ts";
import type { DeviceSource } from "#engine/ports/devices.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { RecordReader } from "#engine/ports/records.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { type HostView, nothingAt, readHostView } from "#host/host-view.ts";
import type { InClusterOptions } from "#kube/api/in-cluster.ts";
import { tokenGauges } from "#kube/api/token-times.ts";
import { eventOf } from "#lib/condition.ts";
import { adminSocketPath, keptDefinitionsName } from "#lib/files/state-files.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { CallServer } from "#serving/call-server.ts";
import type { Life } from "#serving/life.ts";
import { type Cluster, lostDefinitions, openApiCluster, openManifestCluster } from "./cluster.ts";
import type { DaemonFlags } from "./flags.ts";
import { handBackNode } from "./hand-back.ts";
import { housekeepingTasks } from "./housekeeping-tasks.ts";
import { startHealthServer } from "./http/health-server.ts";
import { OptionalServer } from "./http/http-server.ts";
import { startMetricsServer } from "./http/metrics-server.ts";
import { nodeLists } from "./http/node-lists.ts";
import { type Node, noCalls, openNode, startNode } from "./node.ts";
import { selfTest } from "./self-test/self-test.ts";
import { standaloneCredentials } from "./standalone-credentials.ts";
import { StandaloneFiles } from "./standalone-files.ts";

export interface DaemonOptions {
  readonly life: Life;
  readonly flags: DaemonFlags;
  readonly logger: Logger;
  readonly setLogLevel: (level: string) => void;
  readonly nodeName: string;
  /** The pod that plexusd runs in, if any. */
  readonly ownPod?: PodName;
  readonly inCluster?: InClusterOptions;
}

interface Adapters extends DaemonOptions {
  readonly records: FileRecordStore;
  readonly otherRecords: RecordReader;
  readonly metrics: Metrics;
  readonly config: EffectiveConfig;
  readonly cluster: Cluster;
  readonly deviceSources: readonly DeviceSource[];
  readonly view: HostView;
  readonly confFiles: HostConfFiles;
}

/**
 * Starts the parts of plexusd: ARCHITECTURE.md says why in this order. When they stop, the calls in
 * flight are finished. Records stay, and so does the node's CNI configuration unless Plexus was
 * deleted. @throws Error when a part cannot start
 */
export async function startDaemon(options: DaemonOptions): Promise<void> {
  const { life, flags, logger } = options;
  const adapters = await openAdapters(options);
  const { metrics, cluster } = adapters;
  const nodeConf = newNodeConf(adapters);
  let isDeleted: Promise<boolean> | undefined;
  await life.start({
    name: "hand-back",
    start: () => undefined,
    // After the last call, and the last write of the node's CNI configuration.
    stop: async () => (await isDeleted) && handBackNode({ ...adapters, stateDir: flags.stateDir }),
  });
  const standaloneFiles = await openStandaloneFiles(adapters);
  if (!flags.thin) await selfTest({ dir: `${flags.socket}.test`, logger });
  const closing: (() => Promise<unknown>)[] = [];
  // After the calls in flight, so that the state and the probes say what plexusd waits for.
  await life.start({
    name: "admin socket and servers",
    start: () => undefined,
    stop: () => Promise.all(closing.map((close) => close())),
  });
  const node = await openNode({
    ...{ ...adapters, metrics: metrics.engine, hotPlugMetrics: metrics.hotPlug, nodeConf },
    isNothingAt: nothingAt(adapters.view),
    // With --thin, the shim starts plexus-standalone.
    openCalls: (engine) =>
      flags.thin
        ? { ...noCalls, notReadyReason: () => standaloneFiles.notReadyReason() }
        : CallServer.listen({ socketPath: flags.socket, engine, logger }),
  });
  const counts = { ...nodeCounts(node), ...tokenGauges(flags.stateDir) } satisfies Counts;
  metrics.count(counts);
  const networks = () => node.duties?.placement.latest ?? [];
  metrics.list(nodeLists({ networks, engine: node.engine }));
  const parts = { ...node, ...adapters, nodeConf, standaloneFiles };
  const { callsInFlight } = metrics.engine;
  const answers = new AdminAnswers({ ...parts, callsInFlight });
  const socketPath = adminSocketPath(flags.socket);
  const admin = await startAdminServer({ socketPath, answers, logger });
  const servers = httpServers(parts);
  closing.push(
    () => admin.close({ dropConnections: true }),
    ...servers.map((each) => () => each.close()),
  );
  await startNode(node, housekeepingTasks({ ...parts, sockets: [node.calls, admin, ...servers] }));
  await Promise.allSettled(servers.map((server) => server.ensureReachable()));
  await life.start({
    name: "deletion of Plexus",
    start: () => undefined,
    stop: () => {
      // Asks first: the permission to ask may be the next to be deleted.
      isDeleted = nodeConf && cluster.node?.ownDaemonSet?.isDeleted();
    },
  });
  const started = flags.thin ? "leaves the calls to plexus-standalone" : "serves calls";
  logger.info({ socket: flags.socket, stateDir: flags.stateDir }, `plexusd ${started}`);
}

async function openAdapters(options: DaemonOptions): Promise<Adapters> {
  const { life, flags } = options;
  const records = await life.start({
    name: "records",
    start: () => FileRecordStore.open(flags.stateDir),
    stop: (store) => store.flush(),
  });
  const metrics = createMetrics(() => life.state);
  const config = await life.start({
    name: "configuration",
    start: () => openEffectiveConfig({ ...options, metrics }),
    stop: (effective) => effective.close(),
  });
  const cluster = await life.start({
    name: "cluster",
    start: () => openCluster({ ...options, config, metrics }),
    stop: (opened) => opened.close(),
  });
  config.onInvalid((problem) => {
    cluster.recordOnNode(eventOf(invalidConfiguration(problem)));
  });
  const view = await readHostView();
  const confFiles = new HostConfFiles(view);
  const otherRecords = FileRecordStore.ofDocker(flags.stateDir);
  const deviceSources = deviceSourcesOf({ ...options, cluster });
  const ofNode = { records, otherRecords, cluster, view, confFiles, deviceSources };
  return { ...options, metrics, config, ...ofNode };
}

function nodeCounts({ records, engine, duties, nodeConf, cluster }: Node) {
  return {
    plexus_attachments: async () =>
      (await records.list()).records.reduce((sum, record) => sum + record.attachments.length, 0),
    plexus_leftover_records: () => engine.countLeftovers(),
    plexus_next_plugins_missing: async () => nodeConf?.status?.().missing?.length ?? 0,
    plexus_pods_not_attached: async () => engine.findings.count("NotAttached", "AnnotationIgnored"),
    plexus_hotplug_pending: async () => duties?.hotPlug.pending ?? 0,
    plexus_interfaces_lost: async () => engine.findings.count("InterfaceLost"),
    plexus_attachments_outdated: async () => duties?.hotPlug.outdated ?? 0,
    plexus_lost_definitions: async () => lostDefinitions(cluster).size,
  };
}

/** With --thin, writes the files before the node's CNI configuration names the shim. */
async function openStandaloneFiles(adapters: Adapters): Promise<StandaloneFiles> {
  const { flags, config, nodeName, logger } = adapters;
  const files = new StandaloneFiles({
    ...{ stateDir: flags.stateDir, nodeName, logger },
    binDirs: () => config.current().nodeConf.binDirs,
    config: () => config.text(),
    ...standaloneCredentials(adapters),
  });
  // Housekeeping tries again, and the readiness has the reason.
  if (flags.thin) await files.refresh().catch(() => undefined);
  return files;
}

/** Only pods of an API have allocated devices. */
function deviceSourcesOf({
  logger,
  flags,
  cluster,
}: Pick<Adapters, "logger" | "flags" | "cluster">): DeviceSource[] {
  const api = cluster.node?.resourceApi;
  if (api === undefined) return [];
  const { kubeletDir } = flags;
  return [
    new KubeletDevices({ kubeletDir, logger }),
    new ClaimedDevices({ api, kubeletDir, logger }),
  ];
}

function openCluster(adapters: Pick<Adapters, keyof DaemonOptions | "config" | "metrics">) {
  const { flags, logger, config, metrics } = adapters;
  const { source } = flags;
  if (source.kind === "manifests") return openManifestCluster(source.dir, logger);
  const { apiTimeoutMs } = config.current();
  const keptDefinitionsFile = join(flags.stateDir, keptDefinitionsName);
  const options = { apiTimeoutMs, keptDefinitionsFile, metrics: metrics.kube };
  return openApiCluster({ ...adapters, ...source, ...options });
}

/** Only if plexusd is the node's CNI: with an API and a configuration file, or --cni-conf-dir. */
function newNodeConf(adapters: Adapters): NodeConf | undefined {
  const { flags, logger, config, cluster, metrics, confFiles } = adapters;
  const isNodeCni = flags.source.kind === "api" && flags.config !== undefined;
  if (!isNodeCni && flags.cniConfDir === undefined) return undefined;
  const nodeConf = new NodeConf({
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

/** Servers that housekeeping opens as soon as their ports are free. @throws Error for their flags */
function httpServers(parts: Adapters & Pick<Node, "readiness">): OptionalServer[] {
  const { cluster, flags } = parts;
  const { http = flags.source.kind === "api" ? "127.0.0.1:19500" : "false" } = flags;
  const health = healthAddress(http);
  const onFailure = (problem: string): void => {
    const message = `${problem}; plexusd serves calls without it, and tries again`;
    cluster.recordOnNode({ reason: "PortUnavailable", message });
  };
  const servers: OptionalServer[] = [];
  if (health !== undefined) {
    const open = () => startHealthServer({ ...parts, address: health });
    servers.push(new OptionalServer(open, onFailure));
  }
  if (flags.metrics === undefined) return servers;
  const review = cluster.node?.accessReview;
  if (review === undefined) {
    throw new Error("--metrics: needs the Kubernetes API, which authorizes the callers");
  }
  const address = metricsAddress(flags.metrics);
  const open = () => startMetricsServer({ ...parts, address, review });
  return [...servers, new OptionalServer(open, onFailure)];
}
