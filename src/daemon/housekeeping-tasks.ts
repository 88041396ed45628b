import { readPlexusConf } from "#daemon/cni-conf/conf-dir.ts";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import type { NodeDuties } from "#daemon/pods/duties.ts";
import { sweepDeviceInfo } from "#devices/device-info-files.ts";
import type { Engine } from "#engine/engine.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import { deadline, untilAborted } from "#lib/concurrency/deadline.ts";
import type { FileRecordStore } from "#records/file-store.ts";
import { isSandboxInUse } from "#records/sandbox-in-use.ts";
import { type HousekeepingTask, socketsTask } from "#serving/housekeeping.ts";
import type { DaemonFlags } from "./flags.ts";
import type { StandaloneFiles } from "./standalone-files.ts";

/** The kubelet replaces a token at least ten minutes before it expires. */
const standaloneFilesMs = 30_000;
const pendingStatusMs = 60_000;
/** How long its task waits for the API server. */
const foregroundMs = 1000;
const defaultPlanMs = 10_000;
const sweepMs = 600_000;
const unattachedPodsMs = 15_000;
const mirrorPodsMs = 15_000;
const startupTaintMs = 2000;
const compareMs = 600_000;
const lostInterfacesMs = 60_000;
const outdatedMs = 60_000;
const ownDaemonSetMs = 60_000;

/** Options of {@link housekeepingTasks}. */
export interface HousekeepingOptions {
  readonly flags: DaemonFlags;
  readonly config: Pick<EffectiveConfig, "current">;
  readonly engine: Engine;
  readonly records: Pick<FileRecordStore, "list" | "sweep">;
  readonly sockets: readonly { ensureReachable(): Promise<void> }[];
  readonly confFiles: ConfFiles;
  readonly standaloneFiles: Pick<StandaloneFiles, "refresh">;
  readonly duties: NodeDuties | undefined;
}

/** The tasks that plexusd runs on timers. */
export function housekeepingTasks(options: HousekeepingOptions): HousekeepingTask[] {
  const { flags, config, engine, records, sockets, confFiles } = options;
  return [
    // With --local, plexus-standalone finds the same as plexusd, and must not prefer a copy.
    ...(flags.local ? [] : [standaloneTask(options)]),
    socketsTask(...sockets),
    {
      name: "the statuses that could not be written in time",
      everyMs: pendingStatusMs,
      run: async () => {
        // The API server may accept one after hours only: in the background.
        using limit = deadline(foregroundMs);
        const publishing = engine.publishPendingStatuses((id) =>
          isSandboxInUse(flags.stateDir, id),
        );
        await untilAborted(publishing, limit.signal).catch((error: unknown) => {
          if (!limit.signal.aborted) throw error;
        });
      },
    },
    {
      name: "the plan of the default network's DEL",
      everyMs: defaultPlanMs,
      run: async () => {
        const { cniConfDir } = config.current().nodeConf;
        await engine.keepDefaultPlan(await readPlexusConf(cniConfDir, confFiles));
      },
    },
    {
      name: "the sweep of the state directory",
      everyMs: sweepMs,
      run: () => records.sweep(),
    },
    {
      name: "the sweep of device information",
      everyMs: sweepMs,
      run: () =>
        sweepDeviceInfo(async () => {
          const { records: listed } = await records.list();
          return new Set(listed.map(({ containerId }) => containerId));
        }),
    },
    ...(options.duties === undefined ? [] : nodeTasks(options.duties)),
  ];
}

function standaloneTask({ standaloneFiles }: HousekeepingOptions): HousekeepingTask {
  return {
    name: "the configuration and credentials for plexus-standalone",
    everyMs: standaloneFilesMs,
    run: () => standaloneFiles.refresh(),
  };
}

function nodeTasks(duties: NodeDuties): HousekeepingTask[] {
  const { unattachedPods, hotPlug, mirrorPods, lostInterfaces } = duties;
  const { removeStartupTaint, findDaemonSet } = duties;
  return [
    {
      name: "the search for the DaemonSet that runs plexusd",
      everyMs: ownDaemonSetMs,
      run: findDaemonSet,
    },
    {
      name: "the search for pods that were not attached",
      everyMs: unattachedPodsMs,
      run: () => unattachedPods.check(),
    },
    {
      name: "the search for mirrors of static pods that were made anew",
      everyMs: mirrorPodsMs,
      run: () => mirrorPods.check(),
    },
    {
      name: "the comparison of running pods with their annotations",
      everyMs: compareMs,
      run: () => hotPlug.compareAll(),
    },
    {
      name: "the search for lost interfaces",
      everyMs: lostInterfacesMs,
      run: async () => void lostInterfaces.check(),
    },
    {
      name: "the search for definitions that have changed",
      everyMs: outdatedMs,
      run: () => hotPlug.countOutdated(),
    },
    {
      name: "the removal of the start-up taint",
      everyMs: startupTaintMs,
      run: removeStartupTaint,
    },
  ];
}
