import type { ResourceApi } from "#engine/device-ports.ts";
import type { ClusterSource, EventRecorder, Logger, StatusPublisher } from "#engine/ports.ts";
import { ApiClient } from "#kube/api/client.ts";
import { ApiClusterSource, type ObjectCache } from "./cluster-source.ts";
import { ApiEventRecorder } from "./event-recorder.ts";
import { LiveGetter } from "./live-get.ts";
import { KubeResourceApi } from "./resource-api.ts";
import { ApiStatusPublisher } from "./status-publisher.ts";

/** The API for the length of one call: every object is read live, nothing is watched. */
export interface OneShotKube {
  readonly source: ClusterSource;
  readonly publisher: StatusPublisher;
  readonly events: EventRecorder;
  readonly resourceApi: ResourceApi;
  /** Lets pending writes end, for `graceMs` at the most. */
  close(graceMs: number): Promise<void>;
}

/** Reads live always: there is no time to fill a cache. */
const noCache: ObjectCache<never> = { get: () => undefined, synced: true, failure: undefined };

/** @throws Error when the kubeconfig cannot be used */
export async function openKubeOnce(options: {
  readonly kubeconfig: string;
  readonly nodeName: string;
  readonly apiTimeoutMs: number;
  readonly statusWaitMs: number;
  readonly logger: Logger;
}): Promise<OneShotKube> {
  const { logger, nodeName } = options;
  const { plainKubeconfigCredentials } = await import("#kube/api/kubeconfig.ts");
  const client = new ApiClient(await plainKubeconfigCredentials(options.kubeconfig));
  const publisher = new ApiStatusPublisher({ client, logger, waitMs: options.statusWaitMs });
  const events = new ApiEventRecorder({ client, logger, nodeName });
  const live = new LiveGetter(client, options.apiTimeoutMs);
  return {
    source: new ApiClusterSource({ pods: noCache, nads: noCache, live }),
    publisher,
    events,
    resourceApi: new KubeResourceApi(live, nodeName),
    async close(graceMs) {
      await Promise.all([publisher.stop(graceMs), events.stop(graceMs)]);
      client.close();
    },
  };
}
