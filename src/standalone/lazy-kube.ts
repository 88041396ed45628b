import { CniError } from "#cni/error.ts";
import type { ResourceApi } from "#engine/plan/devices/device-ports.ts";
import type { Logger } from "#engine/ports.ts";
import type { OneShotKube } from "#kube/one-shot.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { CallCluster } from "./serve.ts";

interface LazyKubeOptions {
  readonly open: () => Promise<OneShotKube>;
  readonly logger: Logger;
  readonly closeGraceMs: number;
}

/** The API, opened at first use. A DEL does not use it, and must not fail without credentials. */
export function lazyKube(
  options: LazyKubeOptions,
): Required<Omit<CallCluster, "deviceSources">> & { readonly resourceApi: ResourceApi } {
  const { logger, closeGraceMs } = options;
  let opened: Promise<OneShotKube> | undefined;
  const kube = (): Promise<OneShotKube> => {
    opened ??= options.open().catch((cause: unknown) => {
      throw new CniError("ApiUnavailable", errorMessage(cause), { cause });
    });
    return opened;
  };
  return {
    source: {
      getPod: async (identity, call) => (await kube()).source.getPod(identity, call),
      getNad: async (ref, call) => (await kube()).source.getNad(ref, call),
      getPodObject: async (identity, call) => (await kube()).source.getPodObject(identity, call),
      notReadyReason: () => undefined,
    },
    publisher: {
      async publish(pod, annotations) {
        try {
          return await (await kube()).publisher.publish(pod, annotations);
        } catch (error) {
          logger.warn(
            { err: error },
            "the status cannot be written without access to the API server",
          );
          return "pending";
        }
      },
      withdraw: async (pod) => (await opened?.catch(() => undefined))?.publisher.withdraw(pod),
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
