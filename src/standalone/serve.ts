import { hostDeviceInfoFiles } from "#devices/device-info-files.ts";
import { type Call, readCall } from "#engine/call/call.ts";
import type { EngineConfig } from "#engine/config.ts";
import { Engine } from "#engine/engine.ts";
import type { Failure } from "#engine/explain/explain-error.ts";
import type { PaymentOptions } from "#engine/network-status/pending-payments.ts";
import type { PodName } from "#engine/ports/cluster.ts";
import { emptyPorts } from "#engine/ports/empty-ports.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { CallHost } from "#engine/ports/host.ts";
import { readBootId } from "#host/boot-id.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { HostMultusFiles } from "#host/multus-files.ts";
import type { ShimSession } from "#host/shim-session.ts";
import { deadline, untilAborted } from "#lib/concurrency/deadline.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { printableLines } from "#lib/one-line.ts";
import { FileRecordStore } from "#records/file-store.ts";
import type { KnownRecords } from "#records/known-records.ts";
import { isSandboxInUse } from "#records/sandbox-in-use.ts";
import type { CallLog } from "./call-log.ts";

/** The shim sends its request at once. */
const requestTimeoutMs = 10_000;

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
  /** What the process has read of records for other calls. */
  readonly known: KnownRecords;
  readonly config: Partial<EngineConfig>;
  readonly log: Pick<CallLog, keyof CallLog>;
  /** Whether other calls run in the process, whose last one does what is not urgent. */
  readonly isBusy?: () => boolean;
  /** The shim has its answer. */
  readonly onAnswered?: () => void;
  /** Tells plexusd why a pod could not be attached. @default does nothing */
  readonly report?: (pod: PodName, failure: Failure) => Promise<void>;
  /** The call's configuration may name a kubeconfig. */
  readonly openCluster: (call: Call) => Promise<CallCluster>;
}

/** Time for statuses that earlier calls could not publish, in milliseconds. */
const pendingStatusMs = 1000;

/**
 * Serves one call with the same engine as plexusd. The shim and the runtime do not wait for what
 * follows: the event, the sync of the record's updates, and statuses of this call and earlier ones.
 * @throws Error when the call cannot be served: the shim then acts as when plexusd crashes
 */
export async function serveOneCall(options: StandaloneOptions): Promise<void> {
  const { session, stateDir, clock, now } = options;
  const { logger } = options.log;
  const call = readCall(await session.request(requestTimeoutMs));
  if (call.env.PLEXUS_ALIVE !== undefined) session.sendAlive();
  const [opened, bootId, records] = await Promise.all([
    options.openCluster(call),
    readBootId(),
    FileRecordStore.open(stateDir, { known: options.known }),
  ]);
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= opened.close();
    return closed;
  };
  const cluster = { ...opened, close };
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
    if (cluster.source !== undefined) await publishPending(engine, { ...options, call, cluster });
  } finally {
    await Promise.all([cluster.close(), records.flush()]);
  }
}

/**
 * Without plexusd, each call publishes its own status, and then those that earlier calls could not.
 * Its caller does not wait for them. When nothing more is sent, the engine looks whether the pods have
 * got other sandboxes meanwhile.
 */
async function publishPending(
  engine: Engine,
  options: StandaloneOptions & { readonly call: Call; readonly cluster: CallCluster },
): Promise<void> {
  const { stateDir, log, call, cluster } = options;
  using limit = deadline(pendingStatusMs);
  const { signal } = limit;
  try {
    const isInUse = (id: string): Promise<boolean> => isSandboxInUse(stateDir, id);
    const { command, containerId, ifName } = call;
    const own = command === "ADD" ? { containerId, ifName } : undefined;
    const which = { first: containerId, own, ...othersOf(options) };
    const publishing = engine.publishPendingStatuses(isInUse, { signal, ...which });
    await untilAborted(publishing, signal).catch(() => undefined);
    await cluster.close();
    await publishing;
  } catch (error) {
    log.logger.warn({ err: error }, "cannot publish the network-status of earlier calls");
  }
}

/** Which other sandboxes may owe a status: ADDs and DELs come often, so they look at few. */
function othersOf({
  call,
  isBusy,
}: Pick<StandaloneOptions, "isBusy"> & { readonly call: Call }): Pick<PaymentOptions, "others"> {
  if (isBusy?.()) return { others: "none" };
  return call.command === "ADD" || call.command === "DEL" ? { others: "some" } : {};
}
