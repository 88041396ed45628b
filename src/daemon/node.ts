import type { NodeConf } from "#daemon/cni-conf/cni-conf.ts";
import { chainedIn, readCniConfDir, readPlexusConf } from "#daemon/cni-conf/conf-dir.ts";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import { type NodeDuties, nodeDuties } from "#daemon/pods/duties.ts";
import type { HotPlugMetrics } from "#daemon/pods/hot-plug.ts";
import { hostDeviceInfoFiles } from "#devices/device-info-files.ts";
import { Engine } from "#engine/engine.ts";
import { noSandboxHosts } from "#engine/ports/empty-ports.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { readBootId } from "#host/boot-id.ts";
import { HostMultusFiles } from "#host/multus-files.ts";
import { bootClockMs } from "#lib/boot-clock.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import type { CallServer } from "#serving/call-server.ts";
import { Housekeeping, type HousekeepingTask } from "#serving/housekeeping.ts";
import type { Life } from "#serving/life.ts";
import type { Cluster } from "./cluster.ts";

/** What serves the calls of the container runtime. */
export type Calls = Pick<
  CallServer,
  "sandboxHosts" | "findByAgent" | "notReadyReason" | "ensureReachable" | "drain"
>;

export const noCalls: Calls = {
  sandboxHosts: noSandboxHosts,
  findByAgent: async () => undefined,
  notReadyReason: () => undefined,
  ensureReachable: async () => undefined,
  drain: async () => undefined,
};

export interface NodeOptions
  extends Pick<
    EngineDeps,
    | "logger"
    | "records"
    | "otherRecords"
    | "confFiles"
    | "deviceSources"
    | "metrics"
    | "isNothingAt"
  > {
  readonly life: Life;
  readonly config: Pick<EffectiveConfig, "current" | "onChange">;
  readonly cluster: Cluster;
  readonly hotPlugMetrics: HotPlugMetrics;
  /** Absent unless plexusd is the node's CNI. Not started yet. */
  readonly nodeConf:
    | (Pick<NodeConf, "stop" | "notReadyReason"> &
        Partial<Pick<NodeConf, "status">> & { start(): Promise<unknown> })
    | undefined;
  readonly openCalls: (engine: Engine) => Calls | Promise<Calls>;
}

/** A node whose calls are served. */
export interface Node extends NodeOptions {
  readonly engine: Engine;
  readonly calls: Calls;
  readonly readiness: () => readonly string[];
  readonly duties: NodeDuties | undefined;
}

/** Makes the engine and serves calls with it. @throws Error when the calls cannot be served */
export async function openNode(options: NodeOptions): Promise<Node> {
  const { life, config, cluster, confFiles, nodeConf, openCalls } = options;
  const engine = await newEngine(options);
  life.serve();
  const calls = await life.start({
    name: "calls",
    start: () => openCalls(engine),
    stop: (each, limit) => each.drain(limit),
  });
  const lacking = (): string[] =>
    [cluster.source, nodeConf, calls].flatMap((part) => part?.notReadyReason() ?? []);
  const readiness = (): string[] =>
    life.state === "draining" ? ["it is stopping", ...lacking()] : lacking();
  const conf = () => readPlexusConf(config.current().nodeConf.cniConfDir, confFiles);
  const work = { engine, conf, metrics: options.hotPlugMetrics };
  // Pods expect to be attached only where plexusd is the node's CNI.
  const duties =
    nodeConf && nodeDuties({ ...options, ...work, readiness, lacking, hosts: calls.sandboxHosts });
  return { ...options, engine, calls, readiness, duties };
}

/** Keeps the node's CNI configuration, follows its pods and runs the tasks. @throws Error */
export async function startNode(node: Node, tasks: readonly HousekeepingTask[]): Promise<void> {
  const { life, config, cluster, nodeConf, duties, logger } = node;
  await life.start({
    name: "node configuration",
    start: () => nodeConf?.start(),
    stop: () => nodeConf?.stop(),
  });
  const housekeeping = await life.start({
    name: "duties",
    start() {
      duties?.watch();
      return new Housekeeping(tasks, logger);
    },
    // Hot-plug ends first, because its plugins can take long.
    async stop(timers) {
      await duties?.hotPlug.stop();
      await timers.stop();
    },
  });
  config.onChange(() => housekeeping.runNow());
  // Pods need them also while the API server is unavailable.
  if (config.current().engine.clusterRoutes?.length)
    void cluster.source.clusterRanges?.({}).catch(() => undefined);
}

async function newEngine({ config, cluster, ...options }: NodeOptions): Promise<Engine> {
  const { source, publisher, events } = cluster;
  const bootId = await readBootId();
  return new Engine({
    ...options,
    config: () => config.current().engine,
    source,
    publisher,
    events,
    multusFiles: new HostMultusFiles(defaultPaths.cniStateDir),
    deviceInfo: hostDeviceInfoFiles,
    clock: bootClockMs,
    now: () => new Date().toISOString(),
    bootId: () => bootId,
    leftoverDuty: "daemon",
    nextPlugins: async () => {
      if (options.nodeConf?.status?.().chained === undefined) return [];
      // An agent that leaves takes its plugin out of the file first.
      const dir = await readCniConfDir(config.current().nodeConf.cniConfDir, options.confFiles);
      return chainedIn(dir).map(({ type }) => type);
    },
  });
}
