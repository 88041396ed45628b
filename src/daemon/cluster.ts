import type {
  ClusterSource,
  EventRecorder,
  EventText,
  StatusPublisher,
} from "#engine/ports/cluster.ts";
import type { ResourceApi } from "#engine/ports/devices.ts";
import { loggedEvents } from "#engine/ports/empty-ports.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { AccessReview } from "#kube/access-review.ts";
import { type KubeAdapter, type KubeOptions, startKube } from "#kube/adapter.ts";
import { ManifestDirectory } from "#manifests/directory-source.ts";
import { StatusFiles } from "#manifests/status-files.ts";

/** Where pods and definitions come from, and where statuses and events go. */
export interface Cluster {
  readonly source: ClusterSource;
  readonly publisher: StatusPublisher;
  readonly events: EventRecorder;
  /** This node's pods, its Node and its tokens; absent without an API. */
  readonly node?: Pick<
    KubeAdapter,
    | "nodePods"
    | "compareStatuses"
    | "onDefinition"
    | "removeTaint"
    | "ownDaemonSet"
    | "requestToken"
    | "isRejected"
  >;
  readonly resourceApi?: ResourceApi;
  /** Records an event on the Node; without an API, nothing does. */
  recordOnNode(event: EventText): void;
  /** Authorizes readers of the metrics; absent without an API. */
  readonly accessReview?: AccessReview;
  /** Waits a moment for pending writes. */
  close(): Promise<void>;
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
