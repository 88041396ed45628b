import { hostname } from "node:os";
import process from "node:process";
import type { InClusterOptions } from "#kube/api/in-cluster.ts";
import { buildInfo } from "#lib/build-info.ts";
import { parseFlags, usage } from "./flags.ts";
import { createLogger } from "./logger.ts";
import { startDaemon } from "./start.ts";

/** Runs plexusd until SIGTERM or SIGINT; what cannot be started says why in one line and exits with 1. */
async function main(): Promise<void> {
  const flags = parseFlags(process.argv.slice(2));
  if (flags.help) {
    process.stdout.write(usage);
    return;
  }
  const { version, commit } = buildInfo();
  if (flags.version) {
    process.stdout.write(`plexusd ${version} (${commit})\n`);
    return;
  }
  const logger = createLogger({
    level: process.env.LOG_LEVEL ?? "info",
    format: process.env.LOG_FORMAT,
  });
  logger.info({ version, commit, node: process.version }, "plexusd starts");
  const daemon = await startDaemon({
    flags,
    logger,
    setLogLevel: (level) => {
      logger.level = process.env.LOG_LEVEL ?? level;
    },
    nodeName: flags.node ?? process.env.NODE_NAME ?? hostname(),
    ...inCluster(),
  });
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, () => {
      logger.info({ signal }, "plexusd stops: no new calls, those in flight are served");
      daemon.stop().then(
        () => process.exit(0),
        (error: unknown) => {
          logger.error({ err: error }, "plexusd did not stop cleanly");
          process.exit(1);
        },
      );
    });
  }
}

/** The variables that the kubelet sets in every container. */
function inCluster(): { inCluster?: InClusterOptions } {
  const host = process.env.KUBERNETES_SERVICE_HOST;
  const port = process.env.KUBERNETES_SERVICE_PORT;
  return host === undefined || port === undefined ? {} : { inCluster: { host, port } };
}

main().catch((error: unknown) => {
  process.stderr.write(`plexusd: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
