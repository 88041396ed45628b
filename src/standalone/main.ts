import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { performance } from "node:perf_hooks";
import process from "node:process";
import { type DaemonConfig, defaultConfig } from "#daemon/config/config.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import { defaultPaths } from "#lib/default-paths.ts";
import { errorMessage } from "#lib/error-message.ts";
import { openCallCluster } from "./cluster.ts";
import { DescriptorStream } from "./descriptor-stream.ts";
import { stderrLogger } from "./logger.ts";
import { serveOneCall } from "./serve.ts";

/** The shim's end of the socket pair on which it serves orders. */
const shimDescriptor = 3;

/**
 * Serves the one call of the shim that started this process. It prints no answer itself: that goes
 * through the shim. Whatever goes wrong before ends the process, which the shim handles
 * like a daemon that died: it replays the teardown plan and says so.
 */
async function main(): Promise<void> {
  const logger = stderrLogger((line) => process.stderr.write(line));
  const nodeName = process.env.NODE_NAME ?? hostname();
  const manifests = process.env.PLEXUS_MANIFESTS;
  const config = await readConfig(process.env.PLEXUS_CONFIG ?? defaultPaths.configFile);
  await serveOneCall({
    stream: new DescriptorStream(shimDescriptor),
    stateDir: process.env.PLEXUS_STATE_DIR ?? defaultPaths.stateDir,
    config: config.engine,
    logger,
    clock: () => performance.now(),
    now: () => new Date().toISOString(),
    openCluster: (conf) => openCallCluster(conf, { manifests, nodeName, config, logger }),
  });
}

/** The node's configuration file where there is one; else the runtime's conf decides everything. */
async function readConfig(path: string): Promise<DaemonConfig> {
  try {
    return parseConfig(await readFile(path, "utf8"), path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return defaultConfig;
    throw error;
  }
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`plexus-standalone: ${errorMessage(error)}\n`);
    process.exit(1);
  },
);
