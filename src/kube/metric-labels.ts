/** Why a watch had to be started again. "absent": the API has no such type. */
export const restartReasons = [
  "expired",
  "disconnected",
  "throttled",
  "refused",
  "error",
  "absent",
] as const;
export type RestartReason = (typeof restartReasons)[number];

/** How one attempt to write network-status ended. */
export const statusWriteResults = ["written", "retried", "gone", "invalid", "dropped"] as const;
export type StatusWriteResult = (typeof statusWriteResults)[number];

/** Why an event did not reach the API. */
export const eventDropReasons = ["rate", "queue", "failed"] as const;
export type EventDropReason = (typeof eventDropReasons)[number];
