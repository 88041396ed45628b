import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { hostDeviceInfoFiles } from "#devices/device-info-files.ts";
import { Engine } from "#engine/engine.ts";
import { emptyPorts } from "#engine/ports/empty-ports.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { readBootId } from "#host/boot-id.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { bootClockMs } from "#lib/boot-clock.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { AttachmentPolicy } from "#npwg/attachment-policy.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { CallServer } from "#serving/call-server.ts";
import { Housekeeping, socketsTask } from "#serving/housekeeping.ts";
import { networkDriver } from "./driver/network-driver.ts";
import { startPluginServer } from "./driver/plugin-server.ts";
import type { Capabilities } from "./driver/protocol.ts";
import { EndpointHost } from "./endpoints/endpoint-host.ts";
import { Endpoints } from "./endpoints/endpoints.ts";
import { ForgottenEndpoints } from "./endpoints/forgotten-endpoints.ts";
import { probeHostPort } from "./endpoints/host-ports.ts";
import { JsonFiles } from "./json-files.ts";
import { shimRuntime } from "./netns/cni-runtime.ts";
import { IpCommand } from "./netns/ip-command.ts";
import { Networks } from "./networks/networks.ts";
import { endpointSchema, networkSchema } from "./state.ts";
import { lockStateDirectory } from "./state-lock.ts";

const sweepMs = 600_000;
const newContainersMs = 1000;

export interface DockerOptions {
  /** Where dockerd looks for the driver; the file name is the driver's name. */
  readonly pluginSocket: string;
  /** Where the shim calls this process's engine. */
  readonly callSocket: string;
  readonly stateDir: string;
  readonly shim: string;
  readonly cniPath: string;
  readonly confDir: string;
  /** A directory of definitions. Without it, networks are files or JSON. */
  readonly manifests?: string;
  /** What networks may contain. @default anything */
  readonly policy?: AttachmentPolicy;
  readonly capabilities: Capabilities;
  /** Prefix for dockerd's paths of network namespaces, if mounted elsewhere; otherwise "". */
  readonly sandboxRoot: string;
  readonly forgottenCheckMs: number;
  readonly delGraceMs: number;
  readonly pid: number;
  readonly logger: Logger;
}

/** Serves Docker until it is disposed of; containers keep their interfaces. @throws Error */
export async function startDocker(options: DockerOptions): Promise<AsyncDisposable> {
  const { logger, stateDir, callSocket, confDir, pluginSocket, manifests, policy } = options;
  await using resources = new AsyncDisposableStack();
  resources.use(await lockStateDirectory(stateDir));
  // Apart from plexusd's: a container runtime's GC does not list Docker's containers. It keeps these.
  const recordsDir = join(stateDir, "records");
  const records = await FileRecordStore.open(recordsDir);
  resources.defer(() => records.flush());
  const bootId = await readBootId();
  const engine = openEngine({ records, bootId, logger }, options);
  const calls = await CallServer.listen({ socketPath: callSocket, engine, logger });
  resources.defer(() => calls.drain());
  const networks = new Networks(
    await JsonFiles.open({ dir: join(stateDir, "networks"), schema: networkSchema, logger }),
    { ...omitUndefined({ manifests, policy }), confDir, confFiles: new HostConfFiles(), logger },
  );
  const opened = { networks, records, recordsDir, bootId };
  const { endpoints, forgotten } = await openEndpoints(options, opened);
  const { capabilities } = options;
  const driver = networkDriver({ networks, endpoints, capabilities });
  const server = await startPluginServer({ socketPath: pluginSocket, driver, logger });
  resources.defer(() => server.close({ removeFile: true }));
  const tasks = [
    {
      name: "the search for endpoints that dockerd forgot",
      everyMs: options.forgottenCheckMs,
      run: () => forgotten.detach(),
    },
    {
      name: "the look at new containers",
      everyMs: newContainersMs,
      run: () => forgotten.lookAtNewContainers(),
    },
    socketsTask(calls, server),
    { name: "the sweep of the state directory", everyMs: sweepMs, run: () => records.sweep() },
  ];
  const housekeeping = new Housekeeping(tasks, logger);
  resources.defer(() => housekeeping.stop());
  logger.info({ socket: pluginSocket, stateDir }, "the Docker network driver serves");
  return resources.move();
}

/** An engine without pods: it publishes no status and records no events. */
function openEngine(
  parts: { records: FileRecordStore; bootId: string; logger: Logger },
  { delGraceMs }: DockerOptions,
): Engine {
  const { bootId } = parts;
  return new Engine({
    ...emptyPorts,
    ...parts,
    config: () => ({ delGraceMs }),
    confFiles: new HostConfFiles(),
    deviceInfo: hostDeviceInfoFiles,
    clock: bootClockMs,
    now: () => new Date().toISOString(),
    bootId: () => bootId,
    // ForgottenEndpoints does, because plugins may need their interface back first.
    leftoverDuty: "none",
  });
}

async function openEndpoints(
  { logger, shim, cniPath, callSocket, stateDir, pid, sandboxRoot }: DockerOptions,
  opened: { networks: Networks; records: FileRecordStore; recordsDir: string; bootId: string },
): Promise<{ endpoints: Endpoints; forgotten: ForgottenEndpoints }> {
  const { networks, records, recordsDir, bootId } = opened;
  const dir = join(stateDir, "endpoints");
  const stored = await JsonFiles.open({ dir, schema: endpointSchema, logger });
  const runtime = shimRuntime({ shim, cniPath, socket: callSocket, stateDir: recordsDir });
  const namespaces = new IpCommand({ pid, owner: stateDir });
  const host = new EndpointHost({ runtime, namespaces, bootId });
  const endpoints = new Endpoints({
    ...{ stored, networks, host, bootId, logger, sandboxRoot },
    probePort: probeHostPort,
    detachForgotten: (ids) => forgotten.detachNow(ids),
    now: () => new Date().toISOString(),
  });
  const nowMs = (): number => performance.now();
  const forgotten = new ForgottenEndpoints({
    ...{ stored, endpoints, host, records, runtime, bootId, nowMs, logger },
  });
  return { endpoints, forgotten };
}
