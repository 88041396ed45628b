import { closeSync, openSync, writeSync } from "node:fs";
import process from "node:process";
import { flattenCauses } from "#cni/error.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { ShimSession } from "#host/shim-session.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { printableLines } from "#lib/one-line.ts";
import { openBootClock } from "./boot-clock.ts";
import { openCallCluster } from "./cluster.ts";
import { DescriptorStream } from "./descriptor-stream.ts";
import { readConfig, readNodeName } from "./kept-files.ts";
import { reportFailedAdd } from "./report-failed-add.ts";
import { serveOneCall } from "./serve.ts";

/** This process's end of the socket pair to the shim. */
const shimDescriptor = 3;

const usage = `plexus-standalone: serves one call of the container runtime while plexusd does not run

The shim starts it, without arguments (docs/operations/standalone.md).
`;

/**
 * Serves the call of the shim that started this process, which prints the answer. If this process
 * fails, the shim acts as when plexusd crashes: it replays the teardown plan and says so.
 */
async function main(): Promise<void> {
  if (process.argv.length > 2) return void writeSync(1, usage);
  // fetch() would send the requests to the API server through them; plexusd does not, either.
  for (const name of ["http_proxy", "https_proxy", "all_proxy"]) {
    delete process.env[name];
    delete process.env[name.toUpperCase()];
  }
  const logger = stderrLogger(writeToStderr);
  const manifests = process.env.PLEXUS_MANIFESTS;
  const socket = process.env.PLEXUS_SOCKET ?? defaultPaths.socket;
  const stateDir = process.env.PLEXUS_STATE_DIR ?? defaultPaths.stateDir;
  const kept = standalonePaths(stateDir);
  const nodeName = process.env.NODE_NAME ?? readNodeName(kept.nodeName);
  const named = process.env.PLEXUS_CONFIG;
  const config = await readConfig(
    named === undefined ? [kept.config, defaultPaths.configFile] : [named],
  );
  await serveOneCall({
    session: new ShimSession(new DescriptorStream(shimDescriptor)),
    stateDir,
    config: config.engine,
    logger,
    clock: openBootClock(process.env.PLEXUS_CLOCK_US),
    now: () => new Date().toISOString(),
    closeOutput,
    report: (pod, failure) => reportFailedAdd(socket, pod, failure),
    openCluster: (call) => {
      const { manifestsDir: defaultManifests } = defaultPaths;
      const sources = { manifests, defaultManifests, keptKubeconfig: kept.kubeconfig };
      return openCallCluster(call, { ...sources, nodeName, config, logger });
    },
  });
}

/** The runtime reads the shim's stderr, which is stdout and stderr here, until all have closed it. */
function closeOutput(): void {
  for (const descriptor of [1, 2]) {
    closeSync(descriptor);
    // The lowest free descriptor is the one that was closed.
    openSync("/dev/null", "w");
  }
}

type Level = "debug" | "info" | "warn" | "error";

/** process.stderr would keep a copy of the descriptor open. A line that cannot be written is lost. */
function writeToStderr(line: string): void {
  try {
    writeSync(2, printableLines(line));
  } catch {}
}

/** Logs warnings and errors to stderr, which the container runtime logs. */
function stderrLogger(write: (line: string) => void, bound: object = {}): Logger {
  const line = (level: Level) => (fields: object, message: string) => {
    const err = "err" in fields ? { err: flattenCauses(fields.err) } : {};
    write(`${JSON.stringify({ level, ...bound, ...fields, ...err, msg: message })}\n`);
  };
  return {
    debug: () => undefined,
    info: () => undefined,
    warn: line("warn"),
    error: line("error"),
    child: (fields) => stderrLogger(write, { ...bound, ...fields }),
  };
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    writeToStderr(`plexus-standalone: ${flattenCauses(error)}\n`);
    process.exit(1);
  },
);
