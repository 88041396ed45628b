import type { EventRecorder, Logger } from "#engine/ports.ts";

/** Logs events where there is no API to record them. */
export function eventLogger(logger: Logger): EventRecorder {
  return {
    record(pod, event) {
      const fields = { podNamespace: pod.namespace, podName: pod.name, reason: event.reason };
      if (event.type === "Warning") logger.warn(fields, event.message);
      else logger.info(fields, event.message);
    },
  };
}
