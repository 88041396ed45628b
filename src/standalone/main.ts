import { closeSync, openSync, writeSync } from "node:fs";
import process from "node:process";
import { flattenCauses } from "#cni/error.ts";
import type { Call } from "#engine/call/call.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { ShimSession } from "#host/shim-session.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { openBootClock } from "./boot-clock.ts";
import { CallLog } from "./call-log.ts";
import { openCallCluster } from "./cluster.ts";
import { DescriptorStream } from "./descriptor-stream.ts";
import { FurtherCalls, standaloneSocket } from "./further-calls.ts";
import { readConfig, readNodeName } from "./kept-files.ts";
import { reportFailedAdd } from "./report-failed-add.ts";
import { type CallSetting, serveOneCall } from "./serve.ts";

const daemonSocket = process.env.PLEXUS_SOCKET ?? defaultPaths.socket;
/** This process's end of the socket pair to the shim. */
const shimDescriptor = 3;

const usage = `plexus-standalone: serves calls of the container runtime while plexusd does not run

The shim starts it, without arguments (docs/operations/standalone.md).
`;

/**
 * Serves the call of the shim that started this process, which prints the answer, and further calls
 * for some seconds. If this process fails, the shims act as when plexusd crashes: they replay the
 * teardown plans and say so.
 */
async function main(): Promise<void> {
  if (process.argv.length > 2) return void writeSync(1, usage);
  // fetch() would send the requests to the API server through them; plexusd does not, either.
  for (const name of ["http_proxy", "https_proxy", "all_proxy"]) {
    delete process.env[name];
    delete process.env[name.toUpperCase()];
  }
  const clock = openBootClock(process.env.PLEXUS_CLOCK_US);
  const calls: FurtherCalls = new FurtherCalls({
    socketPath: standaloneSocket(daemonSocket),
    executable: process.execPath,
    serve: (session) => serve(session, { calls, clock }),
  });
  const first = new ShimSession(new DescriptorStream(shimDescriptor));
  await calls.during(serve(first, { calls, clock }, closeOutput));
  await calls.whenEnded();
}

async function serve(
  session: ShimSession,
  { calls, clock }: { readonly calls: FurtherCalls; readonly clock: () => number },
  onAnswered?: () => void,
): Promise<void> {
  const log = new CallLog();
  try {
    await serveOneCall({
      ...{ session, log, clock },
      now: () => new Date().toISOString(),
      open: (call) => open(call, { calls, logger: log.logger }),
      report: (pod, failure) => reportFailedAdd(daemonSocket, pod, failure),
      ...omitUndefined({ onAnswered }),
    });
  } finally {
    writeToStderr(log.take());
  }
}

/** The process may have been started with the environment of another call. */
async function open(
  call: Call,
  { calls, logger }: { readonly calls: FurtherCalls; readonly logger: Logger },
): Promise<CallSetting> {
  const { PLEXUS_CONFIG: named, PLEXUS_MANIFESTS: manifests, NODE_NAME: node } = call.env;
  const stateDir = call.env.PLEXUS_STATE_DIR ?? defaultPaths.stateDir;
  const kept = standalonePaths(stateDir);
  const config = await readConfig(
    named === undefined ? [kept.config, defaultPaths.configFile] : [named],
  );
  calls.linger(config.standaloneLingerMs);
  const { manifestsDir: defaultManifests } = defaultPaths;
  const sources = { manifests, defaultManifests, keptKubeconfig: kept.kubeconfig };
  const nodeName = node ?? readNodeName(kept.nodeName);
  const cluster = await openCallCluster(call, { ...sources, nodeName, config, logger });
  return { stateDir, config: config.engine, cluster };
}

let isOutputOpen = true;

/** The runtime reads the shim's stderr, which is stdout and stderr here, until all have closed it. */
function closeOutput(): void {
  isOutputOpen = false;
  for (const descriptor of [1, 2]) {
    closeSync(descriptor);
    // The lowest free descriptor is the one that was closed.
    openSync("/dev/null", "w");
  }
}

/** process.stderr would keep a copy of the descriptor open. Text that cannot be written is lost. */
function writeToStderr(text: string): void {
  // Another thread may have got the descriptor.
  if (!isOutputOpen || text === "") return;
  try {
    writeSync(2, text);
  } catch {}
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    writeToStderr(`plexus-standalone: ${flattenCauses(error)}\n`);
    process.exit(1);
  },
);
