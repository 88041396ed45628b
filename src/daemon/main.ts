import { hostname } from "node:os";
import process from "node:process";
import type { PodName } from "#engine/ports/cluster.ts";
import type { InClusterOptions } from "#kube/api/in-cluster.ts";
import { buildInfo } from "#lib/build-info.ts";
import { errorMessage } from "#lib/error-message.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { Life } from "#serving/life.ts";
import { createLogger } from "#serving/logger.ts";
import { type DaemonFlags, parseFlags, usage } from "./flags.ts";
import { startDaemon } from "./start.ts";

/** Runs plexusd until SIGTERM or SIGINT. If it cannot start, it prints why and exits with 1. */
async function main(): Promise<void> {
  const flags = parseFlags(process.argv.slice(2));
  const { version, commit } = buildInfo();
  if (flags === "help") process.stdout.write(usage);
  else if (flags === "version") process.stdout.write(`plexusd ${version} (${commit})\n`);
  else await run(flags);
}

async function run(flags: DaemonFlags): Promise<void> {
  const { version, commit } = buildInfo();
  const logger = createLogger(process.env.LOG_LEVEL ?? "info");
  logger.info({ version, commit, node: process.version }, "plexusd starts");
  const life = new Life(logger);
  const end = (signal: NodeJS.Signals): void => {
    if (life.state === "draining" || life.state === "stopped") return;
    logger.info({ signal }, "plexusd stops: calls are served until none is in flight");
    life.stop().then(
      () => process.exit(0),
      (err: unknown) => {
        logger.error({ err }, "plexusd did not stop cleanly");
        process.exit(1);
      },
    );
  };
  // As process 1 of a container, plexusd would ignore a signal without a handler. It would finish its
  // start, and take over the socket of its successor.
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, end);
  const options = {
    ...{ life, flags, logger },
    setLogLevel: (level: string) => {
      logger.level = process.env.LOG_LEVEL ?? level;
    },
    nodeName: flags.node ?? process.env.NODE_NAME ?? hostname(),
    ...omitUndefined({ inCluster: inCluster(), ownPod: ownPod() }),
  };
  await life.run(() => startDaemon(options));
}

/** The API's address, from the variables that the kubelet sets in every container. */
function inCluster(): InClusterOptions | undefined {
  const host = process.env.KUBERNETES_SERVICE_HOST;
  const port = process.env.KUBERNETES_SERVICE_PORT;
  return host === undefined || port === undefined ? undefined : { host, port };
}

/** The pod that this process runs in, from the variables that the DaemonSet sets. */
function ownPod(): PodName | undefined {
  const { POD_NAMESPACE: namespace, POD_NAME: name } = process.env;
  return namespace === undefined || name === undefined ? undefined : { namespace, name };
}

main().catch((error: unknown) => {
  process.stderr.write(`plexusd: ${errorMessage(error)}\n`);
  process.exit(1);
});
