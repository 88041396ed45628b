import type { DaemonConfig } from "#daemon/config/config.ts";
import type { EventRecorder, Logger, StatusPublisher } from "#engine/ports.ts";
import { openKubeOnce } from "#kube/one-shot.ts";
import { isJsonObject } from "#lib/json.ts";
import { ManifestDirectory } from "#manifests/directory-source.ts";
import { StatusFiles } from "#manifests/status-files.ts";
import type { CallCluster } from "./serve.ts";

/** How long the process may outlive its answer for what is still to be written. */
const closeGraceMs = 2000;

/**
 * Where a standalone call gets its pods from: a directory of manifests where one is named, else the
 * API by the `kubeconfig` key of the runtime's conf (Multus's name for it), else nowhere: then only
 * the configured networks are attached.
 */
export async function openCallCluster(
  conf: string,
  options: {
    manifests: string | undefined;
    nodeName: string;
    config: Pick<DaemonConfig, "apiTimeoutMs" | "statusWaitMs">;
    logger: Logger;
  },
): Promise<CallCluster> {
  const { manifests, nodeName, config, logger } = options;
  const events = warningsOnly(logger);
  if (manifests !== undefined) {
    const source = await ManifestDirectory.open(manifests, logger);
    const publisher = new StatusFiles(manifests, logger);
    return { source, publisher, events, close: () => source[Symbol.asyncDispose]() };
  }
  const kubeconfig = kubeconfigOf(conf);
  if (kubeconfig === undefined)
    return { publisher: noPublisher, events, close: async () => undefined };
  const kube = await openKubeOnce({
    kubeconfig,
    nodeName,
    logger,
    apiTimeoutMs: config.apiTimeoutMs,
    statusWaitMs: config.statusWaitMs,
  });
  return { ...kube, close: () => kube.close(closeGraceMs) };
}

const noPublisher: StatusPublisher = {
  publish: async () => undefined,
  withdraw: async () => undefined,
};

function warningsOnly(logger: Logger): EventRecorder {
  return {
    record(_pod, event) {
      if (event.type === "Warning") logger.warn({ reason: event.reason }, event.message);
    },
  };
}

/** A conf that cannot be parsed has no key; the engine says what is wrong with it. */
function kubeconfigOf(conf: string): string | undefined {
  try {
    const parsed: unknown = JSON.parse(conf);
    const path = isJsonObject(parsed) ? parsed.kubeconfig : undefined;
    return typeof path === "string" && path !== "" ? path : undefined;
  } catch {
    return undefined;
  }
}
