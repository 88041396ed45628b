import type { ClusterSource, Logger } from "#engine/ports.ts";
import { openKubeOnce } from "#kube/one-shot.ts";
import { ManifestDirectory } from "#manifests/directory-source.ts";

/** A person waits for the network to be created. */
const apiTimeoutMs = 10_000;

/** Where definitions come from; `source` is absent without manifests and kubeconfig. */
export interface DefinitionSource extends AsyncDisposable {
  readonly source?: Pick<ClusterSource, "getNad">;
}

/** Opens a directory of manifests or a cluster. @throws CniError or Error if it cannot be used */
export async function openDefinitionSource(options: {
  readonly manifests?: string;
  readonly kubeconfig?: string;
  readonly logger: Logger;
}): Promise<DefinitionSource> {
  const { manifests, kubeconfig, logger } = options;
  if (manifests !== undefined) {
    const source = await ManifestDirectory.open(manifests, logger);
    return { source, [Symbol.asyncDispose]: () => source[Symbol.asyncDispose]() };
  }
  if (kubeconfig === undefined) return { [Symbol.asyncDispose]: async () => undefined };
  const kube = await openKubeOnce({ kubeconfig, logger, apiTimeoutMs, statusWaitMs: 0 });
  return { source: kube.source, [Symbol.asyncDispose]: () => kube.close(0) };
}
