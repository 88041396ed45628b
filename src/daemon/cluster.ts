import { nodeConfEvent } from "#daemon/cni-conf/node-conf-event.ts";
import type { NodeConfStatus } from "#daemon/cni-conf/status.ts";
import type { ResourceApi } from "#engine/plan/devices/device-ports.ts";
import type { ClusterSource, EventRecorder, Logger, StatusPublisher } from "#engine/ports.ts";
import type { AccessReview } from "#kube/access-review.ts";
import { type KubeAdapter, type KubeOptions, startKube } from "#kube/adapter.ts";
import { confFileDefinitions } from "#manifests/conf-file-definitions.ts";
import { ManifestDirectory } from "#manifests/directory-source.ts";
import { StatusFiles } from "#manifests/status-files.ts";

/** Where pods and definitions come from, and where statuses and events go. */
export interface Cluster {
  readonly source: ClusterSource;
  /** Definitions for pods that the runtime describes, where no source can look pods up. */
  readonly definitions?: Pick<ClusterSource, "getNad">;
  readonly publisher: StatusPublisher;
  readonly events: EventRecorder;
  /** This node's pods, its Node and its tokens; absent without an API. */
  readonly node?: Pick<
    KubeAdapter,
    "nodePods" | "onDefinition" | "removeTaint" | "ownDaemonSet" | "requestToken"
  >;
  readonly resourceApi?: ResourceApi;
  /** Records an event on the Node for relevant changes of its CNI configuration. */
  nodeConfChanged(status: NodeConfStatus, before: NodeConfStatus): void;
  /** Records an event on the Node: the changed configuration file cannot be used. */
  configInvalid(message: string): void;
  /** Records an event on the Node: the container runtime uses this file of the primary CNI again. */
  nodeHandedBack(primary: string): void;
  /** Records an event on the Node: Plexus was deleted, and its configuration stays. */
  nodeNotHandedBack(reason: string): void;
  /** Authorizes readers of the metrics; absent without an API. */
  readonly accessReview?: AccessReview;
  /** Waits a moment for pending writes. */
  close(): Promise<void>;
}

/** Opens a directory of manifests, without an API. */
export async function openManifestCluster(dir: string, logger: Logger): Promise<Cluster> {
  const source = await ManifestDirectory.open(dir, logger);
  return {
    ...withoutApi(logger),
    source,
    publisher: new StatusFiles(dir, logger),
    close: () => source[Symbol.asyncDispose](),
  };
}

/** Neither an API nor a directory: nothing can be looked up, and there is no place for a status. */
export function openFilesCluster(logger: Logger): Cluster {
  const nothing = async (): Promise<undefined> => undefined;
  return {
    ...withoutApi(logger),
    source: {
      getPod: nothing,
      getPodObject: nothing,
      getNad: nothing,
      notReadyReason: () => undefined,
    },
    definitions: confFileDefinitions,
    publisher: { publish: async () => "settled", withdraw: nothing },
    close: nothing,
  };
}

function withoutApi(logger: Logger) {
  return {
    events: eventLogger(logger),
    nodeConfChanged: () => undefined,
    configInvalid: () => undefined,
    nodeHandedBack: () => undefined,
    nodeNotHandedBack: () => undefined,
  };
}

/** Logs events where there is no API to record them. */
function eventLogger(logger: Logger): EventRecorder {
  return {
    record({ namespace, name }, { type, reason, message }) {
      const level = type === "Warning" ? "warn" : "info";
      logger[level]({ podNamespace: namespace, podName: name, reason }, message);
    },
  };
}

/** Opens the Kubernetes API. @throws Error when the credentials cannot be used */
export async function openApiCluster(options: KubeOptions): Promise<Cluster> {
  const kube = await startKube(options);
  return {
    ...kube,
    node: kube,
    nodeConfChanged(status, before) {
      const event = nodeConfEvent(status, before);
      if (event !== undefined) kube.recordOnNode(event);
    },
    configInvalid(problem) {
      const message = `${problem}; plexusd keeps the previous configuration, but does not start again with this one: correct the ConfigMap plexus-config`;
      kube.recordOnNode({ type: "Warning", reason: "InvalidConfiguration", message });
    },
    nodeHandedBack(primary) {
      const message = `Plexus was deleted: the container runtime uses ${primary}`;
      kube.recordOnNode({ type: "Normal", reason: "NodeHandedBack", message });
    },
    nodeNotHandedBack(reason) {
      const message = `Plexus was deleted, but this node still needs it: ${reason}. ${recovery}`;
      kube.recordOnNode({ type: "Warning", reason: "NodeNotHandedBack", message });
    },
    close: () => kube.stop(),
  };
}

const recovery =
  'New pods fail here. Install Plexus again, or hand the node back as in docs/operations/troubleshooting.md, "Plexus was deleted too early"';
