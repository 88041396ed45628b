import type { Logger } from "#engine/ports.ts";
import type { InClusterOptions } from "#kube/api/in-cluster.ts";
import { portableKubeconfig } from "#kube/api/portable-kubeconfig.ts";
import type { EffectiveConfig } from "./effective-config.ts";
import type { DaemonFlags } from "./flags.ts";
import type { HousekeepingTask } from "./housekeeping.ts";
import { StandaloneFiles } from "./standalone-files.ts";
import { sweepSockets } from "./sweep-sockets.ts";

/** The kubelet replaces a token when a fifth of its time is left, ten minutes and more. */
const standaloneFilesMs = 30_000;
const sweepMs = 600_000;

/** What the tasks work on. */
export interface HousekeepingOptions {
  readonly flags: DaemonFlags;
  readonly inCluster?: InClusterOptions;
  readonly config: EffectiveConfig;
  readonly logger: Logger;
}

/** Everything that plexusd does on timers. */
export function housekeepingTasks(options: HousekeepingOptions): HousekeepingTask[] {
  const { flags, config, logger } = options;
  const standaloneFiles = new StandaloneFiles({
    stateDir: flags.stateDir,
    binDirs: () => config.current().nodeConf.binDirs,
    config: () => config.text(),
    logger,
    ...kubeconfigToKeep(options),
  });
  return [
    {
      name: "the configuration and credentials for plexus-standalone",
      everyMs: standaloneFilesMs,
      run: () => standaloneFiles.refresh(),
    },
    {
      name: "the sweep of the socket's directory",
      everyMs: sweepMs,
      run: () => sweepSockets(flags.socket),
    },
  ];
}

/** Nothing where pods come from a directory of manifests. */
function kubeconfigToKeep({ flags, inCluster }: HousekeepingOptions): {
  kubeconfig?: () => Promise<string>;
} {
  const { source } = flags;
  if (source.kind === "manifests") return {};
  const { kubeconfig } = source;
  if (kubeconfig !== undefined) return { kubeconfig: () => portableKubeconfig({ kubeconfig }) };
  return inCluster === undefined ? {} : { kubeconfig: () => portableKubeconfig({ inCluster }) };
}
