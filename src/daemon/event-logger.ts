import type { EventRecorder, Logger } from "#engine/ports.ts";

/** Events where there is no API to record them with: a log line each. */
export function eventLogger(logger: Logger): EventRecorder {
  return {
    record(pod, event) {
      const fields = { podNamespace: pod.namespace, podName: pod.name, reason: event.reason };
      if (event.type === "Warning") logger.warn(fields, event.message);
      else logger.info(fields, event.message);
    },
  };
}
