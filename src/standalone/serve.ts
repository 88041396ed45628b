import { hostDeviceInfoFiles } from "#devices/device-info-files.ts";
import type { EngineConfig } from "#engine/config.ts";
import { Engine } from "#engine/engine.ts";
import type { Failure } from "#engine/explain/explain-error.ts";
import { type Call, readCall } from "#engine/ports/call.ts";
import type { CalledPod } from "#engine/ports/cluster.ts";
import { emptyPorts } from "#engine/ports/empty-ports.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { CallHost } from "#engine/ports/host.ts";
import { readBootId } from "#host/boot-id.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { HostMultusFiles } from "#host/multus-files.ts";
import type { ShimSession } from "#host/shim-session.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { printableLines } from "#lib/one-line.ts";
import { FileRecordStore } from "#records/file-store.ts";
import type { CallLog } from "./call-log.ts";

/** Where the call gets its pods, and where statuses and events go. */
export interface CallCluster
  extends Pick<EngineDeps, "source" | "definitions" | "publisher" | "events" | "deviceSources"> {
  /** Waits a limited time for pending writes. */
  close(): Promise<void>;
}

/** Options of {@link serveOneCall}. */
export interface StandaloneOptions extends Pick<EngineDeps, "clock" | "now"> {
  readonly session: Pick<ShimSession, "request" | "done" | "sendAlive" | keyof CallHost>;
  readonly stateDir: string;
  /** The store of all calls of the process, which the first one opens. */
  readonly openRecords: () => Promise<FileRecordStore>;
  readonly config: Partial<EngineConfig>;
  readonly log: Pick<CallLog, keyof CallLog>;
  /** The shim has its answer. */
  readonly onAnswered?: () => void;
  /** Tells plexusd why a pod could not be attached. @default does nothing */
  readonly report?: (pod: CalledPod, failure: Failure) => Promise<void>;
  /** The call's configuration may name a kubeconfig. */
  readonly openCluster: (call: Call) => Promise<CallCluster>;
}

/**
 * Serves one call with the same engine as plexusd. The shim and the runtime do not wait for what
 * follows: the event, the sync of the record's updates, and its status, if that is not written yet.
 * @throws Error when the call cannot be served: the shim then acts as when plexusd crashes
 */
export async function serveOneCall(options: StandaloneOptions): Promise<void> {
  const { session, stateDir, clock, now } = options;
  const { logger } = options.log;
  const call = readCall(await session.request());
  if (call.env.PLEXUS_ALIVE !== undefined) session.sendAlive();
  const [cluster, bootId, records] = await Promise.all([
    options.openCluster(call),
    readBootId(),
    options.openRecords(),
  ]);
  try {
    const engine = new Engine({
      ...{ ...cluster, records, logger, clock, now },
      config: () => options.config,
      otherRecords: FileRecordStore.ofDocker(stateDir),
      confFiles: new HostConfFiles(),
      multusFiles: new HostMultusFiles(defaultPaths.cniStateDir),
      deviceInfo: hostDeviceInfoFiles,
      metrics: emptyPorts.metrics,
      bootId: () => bootId,
      leftoverDuty: "oneCall",
    });
    const { answer, log, afterAnswer } = await engine.handle(call, session);
    log();
    const stderr = answer.stderr + printableLines(options.log.take());
    await session.done({ ...answer, stderr }).finally(afterAnswer);
    options.onAnswered?.();
    // What the answer starts has begun by then.
    await nextTurn();
    const failure = call.pod && engine.failedAdd(call.pod);
    if (call.pod && failure) await options.report?.(call.pod, failure);
  } finally {
    await Promise.all([cluster.close(), records.flush()]);
  }
}
