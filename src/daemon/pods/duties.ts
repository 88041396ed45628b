import type { Cluster } from "#daemon/cluster.ts";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import { nodeView } from "#daemon/node-view.ts";
import { defaultEngineConfig } from "#engine/config.ts";
import type { Engine } from "#engine/engine.ts";
import type { HotPlugOptions } from "#engine/hotplug/running-sandboxes.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { RecordReader } from "#engine/ports/records.ts";
import type { SandboxHosts } from "#engine/ports/sandbox-hosts.ts";
import type { HousekeepingTask } from "#serving/housekeeping.ts";
import { AgentTasks } from "./agent-tasks.ts";
import { type HotPlugMetrics, HotPlugQueue } from "./hot-plug.ts";
import { LostInterfaces } from "./lost-interfaces.ts";
import { NetworkPlacement } from "./network-placement.ts";
import { startupTaint } from "./startup-taint.ts";
import { UnattachedPods } from "./unattached-pods.ts";

/** What plexusd does for its node in a cluster, besides serving calls. */
export interface NodeDuties {
  readonly hotPlug: HotPlugQueue;
  readonly placement: NetworkPlacement;
  /** Repeated at their intervals. */
  readonly tasks: readonly HousekeepingTask[];
  /** Follows the node's pods, the definitions and the agents. */
  readonly watch: () => void;
}

/** Returns undefined without a cluster. */
export function nodeDuties(options: {
  readonly cluster: Pick<Cluster, "node" | "source">;
  readonly config: Pick<EffectiveConfig, "current">;
  readonly records: RecordReader;
  readonly readiness: () => readonly string[];
  /** As `readiness`, except that it is stopping: an update of plexusd is nothing that a Node should show. */
  readonly lacking: () => readonly string[];
  readonly logger: Logger;
  readonly hosts: SandboxHosts;
  readonly engine: Engine;
  readonly conf: HotPlugOptions["conf"];
  readonly confFiles: ConfFiles;
  readonly metrics: HotPlugMetrics;
}): NodeDuties | undefined {
  const { cluster, config, records, readiness, logger, hosts, engine, conf, metrics } = options;
  const { node } = cluster;
  if (node === undefined) return undefined;
  const { nodePods } = node;
  const engineConfig = () => ({ ...defaultEngineConfig, ...config.current().engine });
  const common = { engine, conf, tasks: new AgentTasks(hosts), nodePods, logger };
  const changed = (pod: Pod): void => void lostInterfaces.look(pod);
  const hotPlug = new HotPlugQueue({ ...common, metrics, changed });
  const plexusNamespace = (): string => engineConfig().plexusNamespace;
  const { findings } = engine;
  const unattachedPods = new UnattachedPods({ ...common, records, findings, plexusNamespace });
  const lostInterfaces = new LostInterfaces({ ...common, hotPlug });
  const removeStartupTaint = startupTaint({
    key: () => config.current().startupTaint,
    readiness,
    remove: (key) => node.removeTaint(key),
    logger,
  });
  const placement = new NetworkPlacement({
    marks: () => config.current().networkPlacement,
    // Definitions that have not been listed must not count as deleted.
    networks: async () =>
      cluster.source.notReadyReason() === undefined
        ? engine.networks(await nodeView(options), true)
        : undefined,
    readiness: options.lacking,
    node: node.marks,
  });
  return {
    hotPlug,
    placement,
    tasks: [
      {
        name: "the search for the DaemonSet that runs plexusd",
        everyMs: 60_000,
        run: async () => node.ownDaemonSet?.find(),
      },
      {
        name: "the search for pods that were not attached",
        everyMs: 15_000,
        run: () => unattachedPods.check(),
      },
      {
        name: "the comparison of pods with their statuses",
        everyMs: 60_000,
        run: () => node.compareStatuses(),
      },
      {
        name: "the comparison of running pods with their annotations",
        everyMs: 600_000,
        run: () => hotPlug.compareAll(),
      },
      {
        name: "the search for lost interfaces",
        everyMs: 60_000,
        run: async () => void lostInterfaces.check(),
      },
      {
        name: "the search for definitions that have changed",
        everyMs: 60_000,
        run: () => hotPlug.countOutdated(),
      },
      {
        name: "the labels and resources of networks on the Node",
        everyMs: 10_000,
        run: () => placement.run(),
      },
      { name: "the removal of the start-up taint", everyMs: 2000, run: removeStartupTaint },
    ],
    watch() {
      nodePods.listen((key, pod) => hotPlug.podChanged(key, pod));
      node.onDefinition((name) => hotPlug.definitionChanged(name));
      hosts.onAvailable(() => hotPlug.agentConnected());
    },
  };
}
