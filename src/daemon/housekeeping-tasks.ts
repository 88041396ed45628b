import { readPlexusConf } from "#daemon/cni-conf/conf-dir.ts";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import { sweepDeviceInfo } from "#devices/device-info-files.ts";
import type { FileRecordStore } from "#records/file-store.ts";
import { type HousekeepingTask, socketsTask } from "#serving/housekeeping.ts";
import type { Cluster } from "./cluster.ts";
import type { Node } from "./node.ts";
import type { StandaloneFiles } from "./standalone-files.ts";

/** The tasks that plexusd runs on timers. */
export function housekeepingTasks(
  options: Pick<Node, "engine" | "confFiles" | "duties"> & {
    readonly cluster: Pick<Cluster, "node">;
    readonly config: Pick<EffectiveConfig, "current">;
    readonly records: Pick<FileRecordStore, "list" | "sweep">;
    readonly sockets: readonly { ensureReachable(): Promise<void> }[];
    readonly standaloneFiles: Pick<StandaloneFiles, "refresh">;
  },
): HousekeepingTask[] {
  const { config, cluster, engine, records, confFiles, standaloneFiles, duties } = options;
  return [
    {
      name: "the configuration and credentials for plexus-standalone",
      // The kubelet replaces a token at least ten minutes before it expires.
      everyMs: 30_000,
      run: () => standaloneFiles.refresh(),
    },
    socketsTask(...options.sockets),
    {
      name: "the plan of the default network's DEL",
      everyMs: 10_000,
      run: async () => {
        const { cniConfDir } = config.current().nodeConf;
        await engine.keepDefaultPlan(await readPlexusConf(cniConfDir, confFiles));
      },
    },
    {
      name: "the kept definitions",
      // Nodes read the CRD when a definition is deleted: each at its own time.
      everyMs: 30_000,
      run: async () => cluster.node?.keptDefinitions?.settle(),
    },
    { name: "the sweep of the state directory", everyMs: 600_000, run: () => records.sweep() },
    {
      name: "the sweep of device information",
      everyMs: 600_000,
      run: () =>
        sweepDeviceInfo(async () => {
          const { records: listed } = await records.list();
          return new Set(listed.map(({ containerId }) => containerId));
        }),
    },
    ...(duties?.tasks ?? []),
  ];
}
