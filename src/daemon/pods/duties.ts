import type { Cluster } from "#daemon/cluster.ts";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import { defaultEngineConfig } from "#engine/config.ts";
import type { Logger } from "#engine/ports.ts";
import type { RecordStore } from "#engine/record/record-store.ts";
import { startupTaint } from "./startup-taint.ts";
import { UnattachedPods } from "./unattached-pods.ts";

/** What {@link nodeDuties} works with. */
export interface NodeDutiesOptions {
  readonly cluster: Pick<Cluster, "node" | "events">;
  readonly config: Pick<EffectiveConfig, "current">;
  readonly records: RecordStore;
  readonly readiness: () => readonly string[];
  readonly logger: Logger;
}

/** What plexusd does for its node in a cluster, besides serving calls. */
export interface NodeDuties {
  readonly unattachedPods: UnattachedPods;
  readonly removeStartupTaint: () => Promise<void>;
  readonly findDaemonSet: () => Promise<void>;
}

/** Returns undefined without a cluster. */
export function nodeDuties(options: NodeDutiesOptions): NodeDuties | undefined {
  const { cluster, config, records, readiness, logger } = options;
  const { node, events } = cluster;
  if (node === undefined) return undefined;
  const { nodePods } = node;
  const plexusNamespace = (): string =>
    config.current().engine.plexusNamespace ?? defaultEngineConfig.plexusNamespace;
  return {
    unattachedPods: new UnattachedPods({
      ...{ nodePods, records, events, logger, plexusNamespace },
      clock: () => performance.now(),
    }),
    removeStartupTaint: startupTaint({
      key: () => config.current().startupTaint,
      readiness,
      remove: (key) => node.removeTaint(key),
      logger,
    }),
    findDaemonSet: async () => node.ownDaemonSet?.find(),
  };
}
