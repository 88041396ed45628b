import type { PodIdentity } from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { JsonApi } from "#kube/api/json-api.ts";
import type { ObjectName } from "#kube/api/paths.ts";
import { ApiEventRecorder } from "#kube/events/event-recorder.ts";
import { nodeNameOf } from "#npwg/object-meta.ts";
import { ApiClusterSource } from "./cluster-source.ts";
import { KeptDefinitions } from "./kept-definitions.ts";
import { LiveGetter } from "./live-get.ts";
import { resourceApi } from "./resource-api.ts";
import { ApiStatusPublisher, statusWaitMs } from "./status-publisher.ts";

/** There is no time to fill a cache. */
const noCache = { get: () => undefined, values: () => [], synced: true, failure: undefined };

/** The Kubernetes API for one call: every object is read live, nothing is watched. */
export function openKubeOnce(options: {
  readonly client: JsonApi;
  /** Without it, events name the pod's node. */
  readonly nodeName?: string;
  readonly apiTimeoutMs: number;
  /** What a rejected token means. */
  readonly rejection?: string;
  /** Where plexusd keeps the definitions. */
  readonly keptDefinitionsFile?: string;
  readonly logger: Logger;
}) {
  const { client, logger, nodeName, apiTimeoutMs, keptDefinitionsFile: file } = options;
  const waitMs = statusWaitMs(apiTimeoutMs);
  const publisher = new ApiStatusPublisher({ client, logger, waitMs });
  const live = new LiveGetter(client, apiTimeoutMs, options.rejection);
  // Read only for a definition that the API does not have.
  const kept =
    file === undefined
      ? undefined
      : {
          missing: () => [],
          lost: (nad: ObjectName, signal?: AbortSignal) =>
            new KeptDefinitions({ file, live, logger }).lost(nad, signal),
        };
  const source = new ApiClusterSource({ pods: noCache, nads: noCache, live, kept, nodeName });
  const nodeOf = async (pod: PodIdentity): Promise<string | undefined> => {
    const object = await source.getPodObject(pod).catch(() => undefined);
    return object && nodeNameOf(object);
  };
  const events = new ApiEventRecorder({
    client,
    logger,
    nodeName: nodeName ?? nodeOf,
  });
  return {
    source,
    publisher,
    events,
    resourceApi: resourceApi(live),
    /** Waits at most `graceMs` for pending writes, and closes the client. */
    async close(graceMs: number): Promise<void> {
      await Promise.all([publisher.stop(graceMs), events.stop(graceMs)]);
      client.close();
    },
  };
}
