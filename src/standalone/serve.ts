import type { Duplex } from "node:stream";
import { HostDeviceInfoFiles } from "#devices/device-info-files.ts";
import { readCall } from "#engine/call/call.ts";
import type { EngineConfig } from "#engine/config.ts";
import { Engine } from "#engine/engine.ts";
import type { DeviceSource } from "#engine/plan/devices/device-ports.ts";
import type { ClusterSource, EventRecorder, Logger, StatusPublisher } from "#engine/ports.ts";
import { readBootId } from "#host/boot-id.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { HostMultusFiles } from "#host/multus-files.ts";
import { ShimSession } from "#host/shim-session.ts";
import { deadline } from "#lib/concurrency/deadline.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { isSandboxInUse } from "#records/sandbox-in-use.ts";

/** The request comes as soon as the process listens: the shim has it ready. */
const requestTimeoutMs = 10_000;

/** Where the one call gets its pods from, and where statuses and events go. */
export interface CallCluster {
  readonly source?: ClusterSource;
  readonly publisher: StatusPublisher;
  readonly events: EventRecorder;
  readonly deviceSources: readonly DeviceSource[];
  /** Waits for pending writes, and gives them up after a while. */
  close(): Promise<void>;
}

/** Options of {@link serveOneCall}. */
export interface StandaloneOptions {
  readonly stream: Duplex;
  readonly stateDir: string;
  readonly config: Partial<EngineConfig>;
  readonly logger: Logger;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
  readonly now: () => string;
  /** Called once the call's configuration is known: a thin node's credentials are in it. */
  readonly openCluster: (conf: string) => Promise<CallCluster>;
}

/** What a call spends on the statuses that earlier calls could not publish, in milliseconds. */
const pendingStatusMs = 1000;

const noMetrics = { requestStarted() {}, requestEnded() {}, delegateEnded() {} };

/**
 * Serves one call, from its request to its answer, with the same engine as the daemon. What is to
 * be published is waited for, since nothing goes on after this process.
 * @throws Error when the call cannot be served: the shim then acts as after a daemon's death
 */
export async function serveOneCall(options: StandaloneOptions): Promise<void> {
  const session = new ShimSession(options.stream);
  const call = readCall(await session.request(requestTimeoutMs));
  const bootId = await readBootId();
  const records = await FileRecordStore.open(options.stateDir);
  const cluster = await options.openCluster(call.stdin);
  try {
    const engine = new Engine({
      config: () => options.config,
      ...omitUndefined({ source: cluster.source }),
      publisher: cluster.publisher,
      events: cluster.events,
      records,
      confFiles: new HostConfFiles(),
      multusFiles: new HostMultusFiles(defaultPaths.cniStateDir),
      deviceInfo: new HostDeviceInfoFiles(),
      deviceSources: cluster.deviceSources,
      logger: options.logger,
      metrics: noMetrics,
      clock: options.clock,
      now: options.now,
      bootId: () => bootId,
      repeatsTeardowns: false,
    });
    const { answer, log } = await engine.handle(call, session);
    try {
      // Without a daemon, GC is the only call that comes regularly.
      if (call.command === "GC") await records.sweep();
      if (cluster.source !== undefined) await publishPending(engine, call.containerId, options);
      await Promise.all([cluster.close(), records.flush()]);
      await session.done(answer);
    } finally {
      log();
    }
  } catch (error) {
    await cluster.close();
    throw error;
  }
}

/**
 * Where no daemon runs, each call publishes what earlier ones could not, its own sandbox's status among it, which its
 * shim has locked. The call does not fail because of that.
 */
async function publishPending(
  engine: Engine,
  own: string,
  { stateDir, logger }: StandaloneOptions,
): Promise<void> {
  using limit = deadline(pendingStatusMs);
  try {
    await engine.publishPendingStatuses(
      async (id) => id !== own && (await isSandboxInUse(stateDir, id)),
      limit.signal,
    );
  } catch (error) {
    logger.warn({ err: error }, "cannot publish the network-status of earlier calls");
  }
}
