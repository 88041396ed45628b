/** Why a watch was restarted. "absent": the API has no such type. */
export const restartReasons = [
  "expired",
  "disconnected",
  "throttled",
  "refused",
  "error",
  "absent",
] as const;
export type RestartReason = (typeof restartReasons)[number];

export const statusWriteResults = ["written", "retried", "rejected"] as const;
export type StatusWriteResult = (typeof statusWriteResults)[number];

export const eventDropReasons = ["rate", "queue", "failed"] as const;

/** Metrics of the API; every label has few values. */
export interface KubeMetrics {
  cacheSynced(resource: string, synced: boolean): void;
  /** The API server listed the objects, or sent an event or a bookmark. */
  cacheUpdated(resource: string): void;
  watchRestarted(resource: string, reason: RestartReason): void;
  statusWrite(result: StatusWriteResult): void;
  eventDropped(reason: (typeof eventDropReasons)[number]): void;
}
