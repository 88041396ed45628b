import type { CalledPod, ClusterSource } from "#engine/ports/cluster.ts";
import { untilAborted } from "#lib/concurrency/deadline.ts";

/** Reads a pod at once, while the engine reads the call: for the first `getPod`, if that asks for it. */
export function withEarlyPod(source: ClusterSource, pod: CalledPod): ClusterSource {
  const reading = source.getPod(pod, {});
  reading.catch(() => undefined);
  let early: typeof reading | undefined = reading;
  return {
    getPod(identity, options) {
      const first = JSON.stringify(identity) === JSON.stringify(pod) ? early : undefined;
      early = undefined;
      if (first === undefined) return source.getPod(identity, options);
      return untilAborted(first, options.signal);
    },
    getNad: (...of) => source.getNad(...of),
    getPodObject: (...of) => source.getPodObject(...of),
    namespaceMatches: (...of) => source.namespaceMatches(...of),
    clusterRanges: async (...of) => source.clusterRanges?.(...of),
    notReadyReason: () => undefined,
  };
}
