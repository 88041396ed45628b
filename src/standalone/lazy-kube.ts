import { CniError } from "#cni/error.ts";
import type { CalledPod, ClusterSource, Pod, WantedStatus } from "#engine/ports/cluster.ts";
import type { ResourceApi } from "#engine/ports/devices.ts";
import { emptyPorts } from "#engine/ports/empty-ports.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { OneShotKube } from "#kube/one-shot.ts";
import { untilAborted } from "#lib/concurrency/deadline.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { CallCluster } from "./serve.ts";

/** The API, opened at first use. A DEL does not use it, and must not fail without credentials. */
export function lazyKube(options: {
  readonly open: () => OneShotKube;
  readonly logger: Logger;
  readonly closeGraceMs: number;
}): Required<Omit<CallCluster, "deviceSources" | "definitions">> & {
  readonly resourceApi: ResourceApi;
  /** Reads a pod in advance, for the next `getPod` of it. */
  readEarly(pod: CalledPod): void;
} {
  const { logger, closeGraceMs } = options;
  let opened: OneShotKube | undefined;
  let wanted: WantedStatus = async () => undefined;
  let early: { readonly key: string; readonly reading: Promise<Pod | undefined> } | undefined;
  const kube = (): OneShotKube => {
    try {
      opened ??= options.open();
    } catch (cause) {
      throw new CniError("ApiUnavailable", errorMessage(cause), { cause });
    }
    // A pod that is read early opens the API before the engine says what it wants.
    opened.publisher.follow((...pod) => wanted(...pod));
    return opened;
  };
  const getPod: ClusterSource["getPod"] = async (...of) => kube().source.getPod(...of);
  return {
    readEarly(pod) {
      const reading = getPod(pod, {});
      reading.catch(() => undefined);
      early = { key: JSON.stringify(pod), reading };
    },
    source: {
      async getPod(identity, call) {
        const { key, reading } = early ?? {};
        early = undefined;
        if (reading !== undefined && key === JSON.stringify(identity)) {
          return untilAborted(reading, call?.signal);
        }
        return getPod(identity, call);
      },
      getNad: async (ref, call) => kube().source.getNad(ref, call),
      getPodObject: async (identity, call) => kube().source.getPodObject(identity, call),
      notReadyReason: () => undefined,
    },
    publisher: {
      ...emptyPorts.publisher,
      follow(how) {
        wanted = how;
      },
      changed(pod) {
        try {
          kube().publisher.changed(pod);
        } catch (err) {
          logger.warn({ err }, "the status cannot be written without access to the API server");
        }
      },
      shown: async (...of) => kube().publisher.shown(...of),
    },
    events: {
      record(pod, event) {
        try {
          kube().events.record(pod, event);
        } catch {
          logger.warn({ reason: event.reason }, event.message);
        }
      },
    },
    resourceApi: {
      getClaim: async (ref, call) => kube().resourceApi.getClaim(ref, call),
      async *listSlices(driver, call) {
        yield* kube().resourceApi.listSlices(driver, call);
      },
    },
    async close() {
      await opened?.close(closeGraceMs);
    },
  };
}
