import { CniError } from "#cni/error.ts";
import type { CalledPod, Pod, WantedStatus } from "#engine/ports/cluster.ts";
import type { ResourceApi } from "#engine/ports/devices.ts";
import { emptyPorts } from "#engine/ports/empty-ports.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { OneShotKube } from "#kube/one-shot.ts";
import { untilAborted } from "#lib/concurrency/deadline.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { CallCluster } from "./serve.ts";

/** The API, opened at first use. A DEL does not use it, and must not fail without credentials. */
export function lazyKube(options: {
  readonly open: () => Promise<OneShotKube>;
  readonly logger: Logger;
  readonly closeGraceMs: number;
}): Required<Omit<CallCluster, "deviceSources" | "definitions">> & {
  readonly resourceApi: ResourceApi;
  /** Reads a pod in advance, for the next `getPod` of it. */
  readEarly(pod: CalledPod): void;
} {
  const { logger, closeGraceMs } = options;
  let opened: Promise<OneShotKube> | undefined;
  let wanted: WantedStatus = async () => undefined;
  let early: { readonly key: string; readonly reading: Promise<Pod | undefined> } | undefined;
  const kube = (): Promise<OneShotKube> => {
    opened ??= options.open().then(
      (opening) => {
        // A pod that is read early opens the API before the engine says what it wants.
        opening.publisher.follow((...pod) => wanted(...pod));
        return opening;
      },
      (cause: unknown) => {
        throw new CniError("ApiUnavailable", errorMessage(cause), { cause });
      },
    );
    return opened;
  };
  return {
    readEarly(pod) {
      const reading = kube().then(({ source }) => source.getPod(pod, {}));
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
        return (await kube()).source.getPod(identity, call);
      },
      getNad: async (ref, call) => (await kube()).source.getNad(ref, call),
      getPodObject: async (identity, call) => (await kube()).source.getPodObject(identity, call),
      notReadyReason: () => undefined,
    },
    publisher: {
      ...emptyPorts.publisher,
      follow(how) {
        wanted = how;
      },
      changed(pod) {
        kube().then(
          ({ publisher }) => publisher.changed(pod),
          (err: unknown) =>
            logger.warn({ err }, "the status cannot be written without access to the API server"),
        );
      },
      async shown(...of) {
        try {
          return await (await kube()).publisher.shown(...of);
        } catch (error) {
          return { message: errorMessage(error), isRejected: false };
        }
      },
    },
    events: {
      record(pod, event) {
        kube().then(
          ({ events }) => events.record(pod, event),
          () => logger.warn({ reason: event.reason }, event.message),
        );
      },
    },
    resourceApi: {
      getClaim: async (ref, call) => (await kube()).resourceApi.getClaim(ref, call),
      async *listSlices(driver, call) {
        yield* (await kube()).resourceApi.listSlices(driver, call);
      },
    },
    async close() {
      await (await opened?.catch(() => undefined))?.close(closeGraceMs);
    },
  };
}
