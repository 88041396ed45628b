import { stat } from "node:fs/promises";
import { CniError } from "#cni/error.ts";
import type { DaemonConfig } from "#daemon/config/config.ts";
import { ClaimedDevices } from "#devices/dra/claimed-devices.ts";
import { KubeletDevices } from "#devices/kubelet-devices.ts";
import type { ClusterSource, EventRecorder, Logger, StatusPublisher } from "#engine/ports.ts";
import { ApiError } from "#kube/api/api-error.ts";
import { openKubeOnce } from "#kube/one-shot.ts";
import { isJsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { ManifestDirectory } from "#manifests/directory-source.ts";
import { StatusFiles } from "#manifests/status-files.ts";
import { lazyKube } from "./lazy-kube.ts";
import type { CallCluster } from "./serve.ts";

/** How long the process may outlive its answer for what is still to be written. */
const closeGraceMs = 2000;

/** Where a standalone call may find its pods. */
interface CallClusterOptions {
  /** A directory of manifests. */
  readonly manifests: string | undefined;
  /** The kubeconfig that plexusd keeps for calls while it is away. */
  readonly keptKubeconfig: string;
  /** Absent where neither the environment nor plexusd has said it. */
  readonly nodeName: string | undefined;
  readonly config: Pick<DaemonConfig, "apiTimeoutMs" | "statusWaitMs" | "kubeletDir">;
  readonly logger: Logger;
}

/**
 * Where a standalone call gets its pods from: a directory of manifests where one is named, else the
 * API by the `kubeconfig` key of the runtime's conf (Multus's name for it), else the API by what
 * plexusd has left, else nowhere: then only sandboxes that are no pods can be attached.
 */
export async function openCallCluster(
  conf: string,
  options: CallClusterOptions,
): Promise<CallCluster> {
  const { manifests, keptKubeconfig, logger } = options;
  if (manifests !== undefined) {
    const source = await ManifestDirectory.open(manifests, logger);
    const publisher = new StatusFiles(manifests, logger);
    const close = (): Promise<void> => source[Symbol.asyncDispose]();
    return { source, publisher, events: warningsOnly(logger), deviceSources: [], close };
  }
  const kubeconfig = kubeconfigOf(conf);
  if (kubeconfig !== undefined) return openApi(kubeconfig, options);
  if (await exists(keptKubeconfig)) {
    const cluster = openApi(keptKubeconfig, options);
    return { ...cluster, source: explainRefusedToken(cluster.source) };
  }
  const close = async (): Promise<void> => undefined;
  return { publisher: noPublisher, events: warningsOnly(logger), deviceSources: [], close };
}

function openApi(
  kubeconfig: string,
  { nodeName, config, logger }: CallClusterOptions,
): Required<CallCluster> {
  const { apiTimeoutMs, statusWaitMs, kubeletDir } = config;
  const api = {
    ...{ kubeconfig, logger, apiTimeoutMs, statusWaitMs },
    ...omitUndefined({ nodeName }),
  };
  const { resourceApi, ...kube } = lazyKube({
    open: () => openKubeOnce(api),
    logger,
    closeGraceMs,
  });
  const devices = new KubeletDevices({ kubeletDir, logger });
  const claimed = new ClaimedDevices({ api: resourceApi, kubeletDir, logger });
  const close = async (): Promise<void> => {
    devices.close();
    await kube.close();
  };
  return { ...kube, deviceSources: [devices, claimed], close };
}

/** The kept token is valid for an hour at most and ends with plexusd's pod; the error then says so. */
function explainRefusedToken(source: ClusterSource): ClusterSource {
  const explained = async <T>(reading: Promise<T>): Promise<T> => {
    try {
      return await reading;
    } catch (error) {
      const cause = error instanceof CniError ? error.cause : undefined;
      if (!(cause instanceof ApiError && cause.status === 401)) throw error;
      throw new CniError("DaemonUnavailable", tokenRefused, { cause: error });
    }
  };
  return {
    getPod: (identity, options) => explained(source.getPod(identity, options)),
    getPodObject: (identity, options) => explained(source.getPodObject(identity, options)),
    getNad: (ref, options) => explained(source.getNad(ref, options)),
    notReadyReason: () => source.notReadyReason(),
  };
}

const tokenRefused =
  "plexusd is away, and the API server refuses the token that it has left for calls without it: the token " +
  "has expired, or plexusd's pod was deleted; the pod can be attached once plexusd runs again";

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

/** What it does not write stays in the record, for plexusd. */
const noPublisher: StatusPublisher = {
  publish: async () => "pending",
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
