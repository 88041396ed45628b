import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { tryParseJson } from "#cni/document.ts";
import type { CallConfig } from "#daemon/config/call-config.ts";
import { ClaimedDevices } from "#devices/dra/claimed-devices.ts";
import { KubeletDevices } from "#devices/kubelet-devices.ts";
import type { Call } from "#engine/ports/call.ts";
import { emptyPorts, loggedEvents } from "#engine/ports/empty-ports.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { readPlainKubeconfig } from "#kube/api/plain-kubeconfig.ts";
import { FetchClient } from "#kube/once/fetch-client.ts";
import { openKubeOnce } from "#kube/one-shot.ts";
import type { Links } from "#lib/files/read-file.ts";
import { isJsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { confFileDefinitions } from "#manifests/conf-file-definitions.ts";
import { withEarlyPod } from "./early-pod.ts";
import type { CallCluster } from "./serve.ts";

/** How long the process waits for pending writes after its answer. */
const closeGraceMs = 2000;

interface CallClusterOptions {
  /** The directory that the environment names. */
  readonly manifests: string | undefined;
  /** The directory that is used if it exists and there is no kubeconfig. */
  readonly defaultManifests: string;
  /** The kubeconfig that plexusd keeps for calls while it is unavailable. */
  readonly keptKubeconfig: string;
  readonly keptDefinitionsFile: string;
  /** Undefined if neither the environment nor plexusd provides it. */
  readonly nodeName: string | undefined;
  readonly config: Pick<CallConfig, "apiTimeoutMs">;
  readonly kubeletDir: string;
  readonly logger: Logger;
}

/**
 * Opens the source of pods for a call. In order: the directory of manifests in the environment, the
 * API of the runtime configuration's `kubeconfig` key (as in Multus), the API of the kubeconfig that
 * plexusd keeps, the default directory of manifests. Without all of them, and without plexusd, pods
 * that the runtime describes get the networks of the configuration files.
 */
export async function openCallCluster(
  call: Call,
  options: CallClusterOptions,
): Promise<CallCluster> {
  const { manifests, defaultManifests, keptKubeconfig, logger } = options;
  if (manifests !== undefined) return openManifests(manifests, logger);
  const kubeconfig = kubeconfigOf(call.stdin);
  if (kubeconfig !== undefined) return openApi(kubeconfig, { ...options, call, links: "any" });
  if (existsSync(keptKubeconfig)) {
    return openApi(keptKubeconfig, { ...options, call, links: "none", rejection: tokenRefused });
  }
  if (existsSync(defaultManifests)) return openManifests(defaultManifests, logger);
  const definitions = existsSync(dirname(keptKubeconfig)) ? undefined : confFileDefinitions;
  const { publisher } = emptyPorts;
  return { ...withoutApi(logger), publisher, ...omitUndefined({ definitions }) };
}

/** @throws Error if others than root can change the manifests; CniError 5 if they are unreadable */
async function openManifests(dir: string, logger: Logger): Promise<CallCluster> {
  const { ManifestDirectory } = await import("#manifests/directory-source.ts");
  const { StatusFiles } = await import("#manifests/status-files.ts");
  const { checkManifests } = await import("#manifests/trust.ts");
  const source = ManifestDirectory.open(dir, logger);
  checkManifests(dir);
  return { ...withoutApi(logger), source, publisher: new StatusFiles(dir, logger) };
}

function openApi(
  kubeconfig: string,
  options: CallClusterOptions & {
    readonly call: Call;
    readonly links: Links;
    readonly rejection?: string;
  },
): CallCluster {
  const { nodeName, keptDefinitionsFile, kubeletDir, logger, call, links, rejection } = options;
  const { apiTimeoutMs } = options.config;
  const client = new FetchClient(() => readPlainKubeconfig(kubeconfig, { links }));
  const kube = openKubeOnce({
    ...{ client, logger, apiTimeoutMs, keptDefinitionsFile },
    ...omitUndefined({ nodeName, rejection }),
  });
  const isReadEarly = call.command === "ADD" && call.pod !== undefined && !hasAnnotations(call);
  const source = isReadEarly ? withEarlyPod(kube.source, call.pod) : kube.source;
  const devices = new KubeletDevices({ kubeletDir, logger });
  const claimed = new ClaimedDevices({ api: kube.resourceApi, kubeletDir, logger });
  const close = (): Promise<void> => kube.close(closeGraceMs);
  return { ...kube, source, deviceSources: [devices, claimed], close };
}

/** The kept token expires after an hour, or with plexusd's pod. */
const tokenRefused =
  "plexusd is unavailable, and the API server rejects the token that it keeps for such calls: the token " +
  "expired, or plexusd's pod was deleted; start plexusd to attach the pod";

function withoutApi(logger: Logger) {
  return { events: loggedEvents(logger), deviceSources: [], close: async () => undefined };
}

/** Returns undefined for an invalid configuration, which the engine rejects. */
function kubeconfigOf(conf: string): string | undefined {
  const parsed = tryParseJson(conf);
  const path = isJsonObject(parsed) ? parsed.kubeconfig : undefined;
  return typeof path === "string" && path !== "" ? path : undefined;
}

/** Whether the container runtime passes the annotations of the pod, so that it need not be read. */
function hasAnnotations({ stdin }: Call): boolean {
  return stdin.includes('"io.kubernetes.cri.pod-annotations":{');
}
