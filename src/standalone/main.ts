import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { flattenCauses } from "#cni/error.ts";
import { ShimSession } from "#host/shim-session.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { keptDefinitionsName } from "#lib/files/state-files.ts";
import { printableLines } from "#lib/one-line.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { sweepStateDirectory } from "#records/sweep.ts";
import { openBootClock } from "./boot-clock.ts";
import { CallLog } from "./call-log.ts";
import { openCallCluster } from "./cluster.ts";
import { DescriptorStream } from "./descriptor-stream.ts";
import { FurtherCalls } from "./further-calls.ts";
import { CallConfigs, readNodeName } from "./kept-files.ts";
import { reportFailedAdd } from "./report-failed-add.ts";
import { type StandaloneOptions, serveOneCall } from "./serve.ts";

/** This process's end of the socket pair to the shim. */
const shimDescriptor = 3;
/** The listening socket for further calls, which PLEXUS_FURTHER_CALLS names. */
const listenDescriptor = 4;

const usage = `plexus-standalone: serves calls of the container runtime while plexusd does not run

The shim starts it, without arguments (docs/operations/standalone.md).
`;

const stateDir = process.env.PLEXUS_STATE_DIR ?? defaultPaths.stateDir;
const kept = standalonePaths(stateDir);
const { PLEXUS_CONFIG: configFile } = process.env;
const configs = new CallConfigs([
  ...(configFile === undefined ? [{ path: kept.config, links: "none" as const }] : []),
  { path: configFile ?? defaultPaths.configFile, links: "any" },
]);
/** Of all calls. */
let records: FileRecordStore | undefined;
/** How long this process stays after its last call. Tests set it. */
const lingerMs = Number(process.env.PLEXUS_LINGER_MS ?? 10_000);

/**
 * Serves the call of the shim that started this process, and further calls of the same runtime for
 * some seconds. The shims print the answers. If this process fails, they act as when plexusd
 * crashes: they replay the teardown plans and say so.
 */
async function main(): Promise<void> {
  if (process.argv.length > 2) return void writeSync(1, usage);
  // fetch() would send the requests to the API server through them; plexusd does not, either.
  for (const name of ["http_proxy", "https_proxy", "all_proxy"]) {
    delete process.env[name];
    delete process.env[name.toUpperCase()];
  }
  const { PLEXUS_FURTHER_CALLS: socket = "", PLEXUS_CLOCK_US } = process.env;
  const clock = openBootClock(PLEXUS_CLOCK_US);
  const calls = new FurtherCalls(socket);
  const first = calls.during(serveFirst(clock));
  const accept = (stream: DescriptorStream): void => {
    // Without an answer, the shim starts another process, or replays the plan.
    const ended = serve(stream, { clock, log: new CallLog() }).catch(() => undefined);
    void calls.during(ended.finally(() => stream.destroy()));
  };
  await (socket !== "" && listen(accept) ? calls.whenOver(lingerMs) : first);
  // No plexusd may do it.
  await sweepStateDirectory(stateDir).catch(() => undefined);
}

/** Returns false if there is no such socket: before Linux 5.9, the shim closes it. */
function listen(accept: (stream: DescriptorStream) => void): boolean {
  try {
    DescriptorStream.listen(listenDescriptor, accept);
    return true;
  } catch {
    return false;
  }
}

async function serveFirst(clock: () => number): Promise<void> {
  const log = new CallLog();
  try {
    const options = { clock, log, onAnswered: closeOutput };
    await serve(DescriptorStream.connect(shimDescriptor), options);
  } catch (error) {
    writeToStderr(`${log.take()}plexus-standalone: ${flattenCauses(error)}\n`);
    process.exitCode = 1;
  } finally {
    closeOutput();
  }
}

async function serve(
  stream: DescriptorStream,
  options: Pick<StandaloneOptions, "clock" | "onAnswered"> & { readonly log: CallLog },
): Promise<void> {
  const session = new ShimSession(stream);
  const { logger } = options.log;
  const manifests = process.env.PLEXUS_MANIFESTS;
  const socket = process.env.PLEXUS_SOCKET ?? defaultPaths.socket;
  const nodeName = process.env.NODE_NAME ?? readNodeName(kept.nodeName);
  const config = await configs.read();
  await serveOneCall({
    ...options,
    session,
    stateDir,
    openRecords,
    config: config.engine,
    now: () => new Date().toISOString(),
    report: (pod, failure) => reportFailedAdd(socket, pod, failure),
    openCluster: (call) => {
      const { manifestsDir: defaultManifests, kubeletDir } = defaultPaths;
      const sources = { manifests, defaultManifests, keptKubeconfig: kept.kubeconfig, kubeletDir };
      const keptDefinitionsFile = join(stateDir, keptDefinitionsName);
      return openCallCluster(call, { ...sources, keptDefinitionsFile, nodeName, config, logger });
    },
  });
}

async function openRecords(): Promise<FileRecordStore> {
  records ??= await FileRecordStore.open(stateDir);
  return records;
}

let isOutputOpen = true;

/** The runtime reads the shim's stderr, which is stdout and stderr here, until all have closed it. */
function closeOutput(): void {
  if (!isOutputOpen) return;
  isOutputOpen = false;
  for (const descriptor of [0, 1, 2]) {
    closeSync(descriptor);
    // The lowest free descriptor is the one that was closed.
    openSync("/dev/null", "r+");
  }
}

/** process.stderr would keep a copy of the descriptor open. A line that cannot be written is lost. */
function writeToStderr(lines: string): void {
  // Another call's file may have got the descriptor.
  if (!isOutputOpen) return;
  try {
    writeSync(2, printableLines(lines));
  } catch {}
}

main().then(
  () => process.exit(),
  (error: unknown) => {
    writeToStderr(`plexus-standalone: ${flattenCauses(error)}\n`);
    process.exit(1);
  },
);
