import type { DefinitionSource } from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { ApiClient } from "#kube/api/client.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import { openKubeOnce } from "#kube/one-shot.ts";

/** A person waits for the network to be created. */
const apiTimeoutMs = 10_000;

/** Opens the cluster of a kubeconfig, if there is one. @throws CniError or Error */
export async function openDefinitionSource({
  kubeconfig,
  logger,
}: {
  readonly kubeconfig?: string;
  readonly logger: Logger;
}): Promise<(DefinitionSource & AsyncDisposable) | undefined> {
  if (kubeconfig === undefined) return undefined;
  const client = new ApiClient(kubeconfigCredentials(kubeconfig));
  const kube = openKubeOnce({ client, logger, apiTimeoutMs });
  return {
    getNad: (ref, call) => kube.source.getNad(ref, call),
    [Symbol.asyncDispose]: () => kube.close(0),
  };
}
