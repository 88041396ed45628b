import type { Logger } from "#engine/ports/logger.ts";

/**
 * What holds at all times, whatever runs and fails around Plexus; by the name in the metric. If
 * one does not hold, Plexus has a defect.
 */
export const assertions = {
  record_after_del: "a DEL has succeeded, and the sandbox still has a record",
  operations_overlap: "two operations of one sandbox run at the same time",
  released_twice: "a lock is released that is not held",
  status_of_record: "a published network-status names a network that the record does not have",
} as const;
export type Assertion = keyof typeof assertions;

/** The marker of the log line, for those who search for it. @internal */
export const brokenAssertion = "a defect of Plexus, please report it with this line: ";

/** Where a broken assertion is logged and counted. */
export interface AssertionReporters {
  readonly logger: Pick<Logger, "error">;
  readonly metrics: { assertionBroken(assertion: Assertion): void };
}

/** Counts and logs that an assertion does not hold. The call continues: pods need their networks. */
export function reportBroken(
  { logger, metrics }: AssertionReporters,
  assertion: Assertion,
  state: object,
): void {
  metrics.assertionBroken(assertion);
  logger.error({ assertion, ...state }, brokenAssertion + assertions[assertion]);
}
