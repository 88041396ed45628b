import { performance } from "node:perf_hooks";
import { Engine } from "#engine/engine.ts";
import type { Logger } from "#engine/ports.ts";
import { HostConfFiles, HostDeviceInfoFiles } from "#host/conf-files.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { openManifests } from "./cluster.ts";
import type { DaemonFlags } from "./flags.ts";
import { CallServer } from "./server.ts";

/** What the process hands in. */
export interface DaemonOptions {
  readonly flags: DaemonFlags;
  readonly logger: Logger;
  readonly nodeName: string;
}

/** A daemon that serves. */
export interface RunningDaemon {
  /** Serves what is in flight to its end, then lets go of everything. The records stay. */
  stop(): Promise<void>;
}

/** Wires the engine to its adapters and serves. @throws Error when something it needs is unusable */
export async function startDaemon(options: DaemonOptions): Promise<RunningDaemon> {
  const { flags, logger } = options;
  if (flags.manifests === undefined) throw new Error("no source of pods: give --manifests DIR");
  const cluster = await openManifests(flags.manifests, logger);
  const engine = new Engine({
    config: () => ({}),
    source: cluster.source,
    publisher: cluster.publisher,
    events: cluster.events,
    records: await FileRecordStore.open(flags.stateDir),
    confFiles: new HostConfFiles(),
    deviceInfo: new HostDeviceInfoFiles(),
    logger,
    metrics: { requestStarted() {}, requestEnded() {}, delegateEnded() {} },
    clock: () => performance.now(),
    now: () => new Date().toISOString(),
  });
  const server = await CallServer.listen({ socketPath: flags.socket, engine, logger });
  logger.info({ socket: flags.socket, stateDir: flags.stateDir }, "plexusd serves");
  return {
    async stop() {
      await server.drain();
      await cluster[Symbol.asyncDispose]();
    },
  };
}
