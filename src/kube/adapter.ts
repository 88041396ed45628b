import type { EventText } from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { ApiClient } from "#kube/api/client.ts";
import type { RereadCredentials } from "#kube/api/credentials.ts";
import { type InClusterOptions, inClusterCredentials } from "#kube/api/in-cluster.ts";
import { apiPaths, type ObjectName } from "#kube/api/paths.ts";
import { ApiEventRecorder } from "#kube/events/event-recorder.ts";
import { nodePods, removeTaint, requestNodeToken } from "#kube/node/node.ts";
import { type NodeMarks, readMarks, writeMarks } from "#kube/node/node-marks.ts";
import { OwnDaemonSet } from "#kube/node/own-daemonset.ts";
import type { WatchTimings } from "#kube/watch/list-watch.ts";
import { WatchCache } from "#kube/watch/watch-cache.ts";
import { type Condition, eventOf } from "#lib/condition.ts";
import { dnsSubdomainProblem } from "#lib/dns-name.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { withValue } from "#lib/parsing/document-error.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";
import { accessReview, isRejected } from "./access-review.ts";
import { ApiClusterSource } from "./cluster-source.ts";
import { KeptDefinitions } from "./kept-definitions.ts";
import { LiveGetter } from "./live-get.ts";
import type { KubeMetrics } from "./metric-labels.ts";
import { metadataListOnly, metadataOnly, nadOf, type WatchedPod, watchedPodOf } from "./objects.ts";
import { resourceApi } from "./resource-api.ts";
import { ApiStatusPublisher, statusWaitMs } from "./status-publisher.ts";
import { WritePace } from "./write-pace.ts";

export interface KubeOptions {
  /** A kubeconfig file; without one, {@link KubeOptions.inCluster} is needed. */
  readonly kubeconfig?: string;
  readonly inCluster?: InClusterOptions;
  /** The node whose pods are watched. */
  readonly nodeName: string;
  /** The pod that this process runs in; absent outside of the cluster. */
  readonly ownPod?: ObjectName;
  /** Where to keep the definitions, in case that their CRD is deleted; absent: they are not kept. */
  readonly keptDefinitionsFile?: string;
  /** The time limit of a live read; after it the call fails with code 11 and is retried. */
  readonly apiTimeoutMs: number;
  readonly logger: Logger;
  readonly metrics?: Partial<KubeMetrics>;
  /** For tests. */
  readonly timings?: Partial<WatchTimings>;
}

/** The Kubernetes API as the engine and the daemon use it. */
export type KubeAdapter = Awaited<ReturnType<typeof startKube>>;

/**
 * Watches this node's pods and all definitions; succeeds even if the API server is unavailable.
 * @throws Error when the kubeconfig cannot be used, or the node name is invalid
 */
export async function startKube(options: KubeOptions) {
  const problem = dnsSubdomainProblem(options.nodeName);
  if (problem !== undefined) {
    throw new Error(`the node name ${withValue(problem, options.nodeName)}`);
  }
  const client = new ApiClient(await credentialsFor(options));
  const { nodeName, ownPod, logger, apiTimeoutMs, metrics = {} } = options;
  const live = new LiveGetter(client, apiTimeoutMs);
  const onLost = (condition: Condition): void => events.recordOnNode(eventOf(condition));
  const file = options.keptDefinitionsFile;
  const kept = file === undefined ? undefined : new KeptDefinitions({ file, live, logger, onLost });
  const { pods, nads } = watchCaches(client, kept, options);
  const common = { client, logger, metrics, pace: new WritePace() };
  const publisher = new ApiStatusPublisher({ ...common, waitMs: statusWaitMs(apiTimeoutMs), pods });
  pods.listen((key, pod) => publisher.podDelivered(key, pod));
  const events = new ApiEventRecorder({ ...common, nodeName });
  const onNodes = (count: number): void => {
    for (const cache of [pods, nads]) cache.spreadOver(count);
  };
  const ownDaemonSet = ownPod && new OwnDaemonSet({ client, pod: ownPod, onNodes, logger });
  const running = Promise.all([pods.run(), nads.run()]);
  return {
    source: new ApiClusterSource({ pods, nads, live, kept, nodeName }),
    /** Undefined where none are kept. */
    keptDefinitions: kept,
    /** Whether the API server knows definitions. */
    servesDefinitions: () => nads.isServed,
    publisher,
    events,
    resourceApi: resourceApi(live),
    nodePods: nodePods(pods, live),
    /** Call it regularly: plexus-standalone attaches pods, too. */
    compareStatuses: () => publisher.compareAll(),
    /** Calls the listener for every definition (`namespace/name`) that the watch delivers from now on. */
    onDefinition: (listener: (name: string) => void) => nads.listen((key) => listener(key)),
    accessReview: accessReview(client, apiTimeoutMs),
    /** Undefined outside of a pod. */
    ownDaemonSet,
    /** Records an event on this node's Node. Never waits, never throws. */
    recordOnNode: (event: EventText) => events.recordOnNode(event),
    /** Removes the taints with this key from this node's Node. @throws ApiError */
    removeTaint: (key: string) => removeTaint(client, { nodeName, key }),
    /** What this node's Node says of its networks. */
    marks: {
      /** @throws ApiError */
      read: () => readMarks(client, nodeName),
      /** @throws ApiError */
      write: (before: NodeMarks, after: NodeMarks) =>
        writeMarks(client, nodeName, { before, after }),
    },
    /** A token of this service account, bound to this node's Node. @throws as {@link requestNodeToken} */
    requestToken: (account: ObjectName, seconds: number) =>
      requestNodeToken(client, { account, nodeName, seconds }),
    /** Whether the API server rejects a token; false without an answer. */
    isRejected: (token: string) => isRejected(client, token),
    /** Ends the watches; waits at most `graceMs` for status writes and events. */
    stop: async (graceMs = 5000) => {
      pods.stop();
      nads.stop();
      ownDaemonSet?.stop();
      await Promise.all([running, publisher.stop(graceMs), events.stop(graceMs)]);
      client.close();
    },
  };
}

async function credentialsFor(options: KubeOptions): Promise<RereadCredentials> {
  if (options.kubeconfig !== undefined) {
    const { kubeconfigCredentials } = await import("#kube/api/kubeconfig.ts");
    return kubeconfigCredentials(options.kubeconfig);
  }
  if (options.inCluster !== undefined) return inClusterCredentials(options.inCluster);
  throw new Error("no API server: neither a kubeconfig nor KUBERNETES_SERVICE_HOST is set");
}

function watchCaches(
  client: ApiClient,
  follower: KeptDefinitions | undefined,
  options: KubeOptions,
) {
  const { nodeName, logger, metrics, timings } = options;
  const common = { client, logger, ...omitUndefined({ metrics, timings }) };
  return {
    pods: new WatchCache<WatchedPod>({
      ...common,
      resource: "pods",
      path: apiPaths.pods,
      query: { fieldSelector: `spec.nodeName=${nodeName}` },
      accept: { list: metadataListOnly, watch: metadataOnly },
      decode: watchedPodOf,
    }),
    nads: new WatchCache<NetworkAttachmentDefinition>({
      ...common,
      resource: "network-attachment-definitions",
      path: apiPaths.nads,
      mayBeAbsent: true,
      follower,
      decode: nadOf,
    }),
  };
}
