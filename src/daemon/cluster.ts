import type {
  ClusterSource,
  EventRecorder,
  EventText,
  StatusPublisher,
} from "#engine/ports/cluster.ts";
import { loggedEvents } from "#engine/ports/empty-ports.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { type KubeAdapter, type KubeOptions, startKube } from "#kube/adapter.ts";
import type { JsonObject } from "#lib/json.ts";
import { ManifestDirectory } from "#manifests/directory-source.ts";
import { StatusFiles } from "#manifests/status-files.ts";

/** Where pods and definitions come from, and where statuses and events go. */
export interface Cluster {
  readonly source: ClusterSource;
  readonly publisher: StatusPublisher;
  readonly events: EventRecorder;
  /** Records an event on this node's Node. Never waits, never throws. */
  recordOnNode(event: EventText): void;
  /** This node's pods, its Node, and what else only an API has. */
  readonly node?: KubeAdapter;
  /** Waits a moment for pending writes. */
  close(): Promise<void>;
}

/** The manifests of the definitions that were deleted with their CRD, by `namespace/name`. */
export function lostDefinitions({ node }: Cluster): ReadonlyMap<string, JsonObject> {
  return node?.keptDefinitions?.lostManifests() ?? new Map();
}

/** Opens a directory of manifests, without an API. */
export function openManifestCluster(dir: string, logger: Logger): Cluster {
  return {
    source: ManifestDirectory.open(dir, logger),
    publisher: new StatusFiles(dir, logger),
    events: loggedEvents(logger),
    recordOnNode: () => undefined,
    close: async () => undefined,
  };
}

/** Opens the Kubernetes API. @throws Error when the credentials cannot be used */
export async function openApiCluster(options: KubeOptions): Promise<Cluster> {
  const kube = await startKube(options);
  return { ...kube, node: kube, close: () => kube.stop() };
}
