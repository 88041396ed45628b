import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { HostDeviceInfoFiles } from "#devices/device-info-files.ts";
import type { Capabilities } from "#docker/driver/answers.ts";
import { networkDriver } from "#docker/driver/network-driver.ts";
import { startPluginServer } from "#docker/driver/plugin-server.ts";
import { EndpointHost } from "#docker/endpoints/endpoint-host.ts";
import { Endpoints } from "#docker/endpoints/endpoints.ts";
import { Reconciler } from "#docker/endpoints/forgotten-endpoints.ts";
import { probeHostPort } from "#docker/endpoints/host-ports.ts";
import { ShimRuntime } from "#docker/netns/cni-runtime.ts";
import { IpCommand } from "#docker/netns/ip-command.ts";
import { openDefinitionSource } from "#docker/networks/definition-source.ts";
import { Networks } from "#docker/networks/networks.ts";
import { Engine } from "#engine/engine.ts";
import type { EventRecorder, Logger, MultusFiles, StatusPublisher } from "#engine/ports.ts";
import type { RecordStore } from "#engine/record/record-store.ts";
import { readBootId } from "#host/boot-id.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { bootClockMs } from "#lib/boot-clock.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { CallServer } from "#serving/call-server.ts";
import { Housekeeping, type HousekeepingTask } from "#serving/housekeeping.ts";
import { JsonFiles } from "./json-files.ts";
import { endpointSchema, networkSchema } from "./state.ts";
import { lockStateDirectory } from "./state-lock.ts";

const sweepMs = 600_000;
const socketMs = 5000;

/** Options of {@link startDocker}. */
export interface DockerOptions {
  /** Where the engine looks for the driver; its name is the driver's. */
  readonly pluginSocket: string;
  /** Where the shim finds this process's engine. */
  readonly callSocket: string;
  readonly stateDir: string;
  readonly shim: string;
  readonly binDirs: readonly string[];
  readonly confDir: string;
  /** Where definitions come from; with neither there are files and JSON only. */
  readonly manifests?: string;
  readonly kubeconfig?: string;
  readonly capabilities: Pick<Capabilities, "Scope" | "ConnectivityScope">;
  /** What comes before the engine's paths of network namespaces, where its directories are mounted elsewhere. */
  readonly sandboxRoot: string;
  readonly reconcileMs: number;
  /** This process's own. */
  readonly pid: number;
  readonly logger: Logger;
}

/** A running driver. */
export interface RunningDriver {
  /** Answers what is under way. Containers keep their interfaces. */
  stop(): Promise<void>;
}

/** Serves the engine. @throws Error when something that it needs cannot be used */
export async function startDocker(options: DockerOptions): Promise<RunningDriver> {
  const { logger, stateDir, callSocket } = options;
  await using resources = new AsyncDisposableStack();
  resources.use(await lockStateDirectory(stateDir));
  const records = await FileRecordStore.open(recordsDir(options));
  resources.defer(() => records.flush());
  const bootId = await readBootId();
  const engine = openEngine({ records, bootId, logger });
  const calls = await CallServer.listen({ socketPath: callSocket, engine, logger });
  resources.defer(() => calls.drain());
  const definitions = resources.use(await openDefinitionSource(options));
  const { source } = definitions;
  const { confDir } = options;
  const networks = new Networks(
    await JsonFiles.open({ dir: join(stateDir, "networks"), schema: networkSchema, logger }),
    { ...omitUndefined({ source }), confDir, confFiles: new HostConfFiles(), logger },
  );
  const { endpoints, reconciler } = await openEndpoints({ ...options, networks, records, bootId });
  const capabilities: Capabilities = { ...options.capabilities, GwAllocChecker: true };
  const driver = networkDriver({ networks, endpoints, capabilities, logger });
  const server = await startPluginServer({ socketPath: options.pluginSocket, driver, logger });
  resources.defer(() => server.close({ removeFile: true }));
  const sockets = [calls, server];
  const tasks = housekeepingTasks(options, { reconciler, sockets, records });
  const housekeeping = new Housekeeping(tasks, logger);
  resources.defer(() => housekeeping.stop());
  logger.info({ socket: options.pluginSocket, stateDir }, "the Docker network driver serves");
  const running = resources.move();
  return { stop: () => running.disposeAsync() };
}

/** Apart from plexusd's: container runtimes that collect garbage know nothing of the engine's containers. */
function recordsDir({ stateDir }: Pick<DockerOptions, "stateDir">): string {
  return join(stateDir, "records");
}

function openEngine(parts: { records: RecordStore; bootId: string; logger: Logger }): Engine {
  const { bootId } = parts;
  return new Engine({
    ...parts,
    config: () => ({}),
    publisher: noPublisher,
    events: noEvents,
    confFiles: new HostConfFiles(),
    multusFiles: noMultusFiles,
    deviceInfo: new HostDeviceInfoFiles(),
    deviceSources: [],
    metrics: { requestStarted() {}, requestEnded() {}, delegateEnded() {} },
    clock: bootClockMs,
    now: () => new Date().toISOString(),
    bootId: () => bootId,
    // The reconciler does, as plugins may need their interface back for that.
    repeatsTeardowns: false,
  });
}

/** Multus attaches pods only. */
const noMultusFiles: MultusFiles = {
  containers: async () => [],
  networks: async () => undefined,
  cachedAdd: async () => undefined,
};

async function openEndpoints(
  parts: DockerOptions & { networks: Networks; records: RecordStore; bootId: string },
): Promise<{ endpoints: Endpoints; reconciler: Reconciler }> {
  const { logger, shim, binDirs, callSocket: socket, bootId, networks, records } = parts;
  const dir = join(parts.stateDir, "endpoints");
  const stored = await JsonFiles.open({ dir, schema: endpointSchema, logger });
  const runtime = new ShimRuntime({ shim, binDirs, socket, stateDir: recordsDir(parts) });
  const host = new EndpointHost({
    runtime,
    namespaces: new IpCommand({ pid: parts.pid, owner: parts.stateDir }),
    bootId,
  });
  const endpoints = new Endpoints({
    ...{ stored, networks, host, bootId, logger, sandboxRoot: parts.sandboxRoot },
    probePort: probeHostPort,
    now: () => new Date().toISOString(),
  });
  const nowMs = (): number => performance.now();
  const reconciler = new Reconciler({
    ...{ stored, endpoints, host, records, runtime, bootId, nowMs, logger },
  });
  return { endpoints, reconciler };
}

function housekeepingTasks(
  { reconcileMs }: DockerOptions,
  parts: {
    reconciler: Reconciler;
    sockets: readonly { ensureReachable(): Promise<void> }[];
    records: RecordStore;
  },
): HousekeepingTask[] {
  const { reconciler, sockets, records } = parts;
  return [
    {
      name: "the search for endpoints that the engine has forgotten",
      everyMs: reconcileMs,
      run: () => reconciler.run(),
    },
    {
      name: "the sockets",
      everyMs: socketMs,
      run: async () => {
        for (const socket of sockets) await socket.ensureReachable();
      },
    },
    {
      name: "the sweep of the state directory",
      everyMs: sweepMs,
      run: () => records.sweep(),
    },
  ];
}

/** Containers of the engine are no pods: nothing is published. */
const noPublisher: StatusPublisher = {
  publish: async () => "settled",
  withdraw: async () => undefined,
};

const noEvents: EventRecorder = { record: () => undefined };
