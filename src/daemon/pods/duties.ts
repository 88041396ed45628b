import type { Cluster } from "#daemon/cluster.ts";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import { defaultEngineConfig } from "#engine/config.ts";
import type { Engine } from "#engine/engine.ts";
import { mayHotPlug } from "#engine/hotplug/desired-networks.ts";
import type { HotPlugOptions } from "#engine/hotplug/hot-plug.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { RecordReader } from "#engine/ports/records.ts";
import type { SandboxHosts } from "#engine/ports/sandbox-hosts.ts";
import { AgentTasks } from "./agent-tasks.ts";
import { type HotPlugMetrics, HotPlugQueue } from "./hot-plug.ts";
import { LostInterfaces } from "./lost-interfaces.ts";
import { MirrorPods } from "./mirror-pods.ts";
import { startupTaint } from "./startup-taint.ts";
import { StatusGuard } from "./status-guard.ts";
import { UnattachedPods } from "./unattached-pods.ts";

/** What plexusd does for its node in a cluster, besides serving calls. */
export interface NodeDuties {
  readonly unattachedPods: UnattachedPods;
  readonly hotPlug: HotPlugQueue;
  readonly lostInterfaces: LostInterfaces;
  readonly mirrorPods: MirrorPods;
  readonly removeStartupTaint: () => Promise<void>;
  readonly findDaemonSet: () => Promise<void>;
  /** Follows the node's pods, the definitions and the agents. */
  readonly watch: () => void;
}

/** Returns undefined without a cluster. */
export function nodeDuties(options: {
  readonly cluster: Pick<Cluster, "node" | "events">;
  readonly config: Pick<EffectiveConfig, "current">;
  readonly records: RecordReader;
  readonly readiness: () => readonly string[];
  readonly logger: Logger;
  readonly hosts: SandboxHosts;
  readonly engine: Engine;
  readonly conf: HotPlugOptions["conf"];
  readonly metrics: HotPlugMetrics;
}): NodeDuties | undefined {
  const { cluster, config, records, readiness, logger, hosts, engine, conf, metrics } = options;
  const { node, events } = cluster;
  if (node === undefined) return undefined;
  const { nodePods } = node;
  const clock = (): number => performance.now();
  const isOn = (namespace: string): boolean =>
    mayHotPlug({ ...defaultEngineConfig, ...config.current().engine }, namespace);
  const common = { engine, conf, tasks: new AgentTasks(hosts), nodePods, logger, clock };
  const guard = new StatusGuard(common);
  const hotPlug = new HotPlugQueue({ ...common, metrics, guard, isOn });
  const mirrorPods = new MirrorPods(common);
  const plexusNamespace = (): string =>
    config.current().engine.plexusNamespace ?? defaultEngineConfig.plexusNamespace;
  return {
    unattachedPods: new UnattachedPods({
      ...{ nodePods, records, events, logger, plexusNamespace, clock },
    }),
    hotPlug,
    mirrorPods,
    lostInterfaces: new LostInterfaces({ ...common, hotPlug }),
    removeStartupTaint: startupTaint({
      key: () => config.current().startupTaint,
      readiness,
      remove: (key) => node.removeTaint(key),
      logger,
    }),
    findDaemonSet: async () => node.ownDaemonSet?.find(),
    watch() {
      nodePods.listen((key, pod) => {
        hotPlug.podChanged(key, pod);
        void guard.podChanged(key, pod);
        void mirrorPods.podChanged(key, pod);
      });
      node.onDefinition((name) => hotPlug.definitionChanged(name));
      hosts.onAvailable(() => hotPlug.agentConnected());
    },
  };
}
