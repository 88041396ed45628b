import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";

/** A record has another boot ID than the process that reads it. */
const otherBoot = "it was attached before the machine was restarted";

/** Between the readings of a date and a clock. */
const readingsMs = 1000;

/**
 * The sign that a record's boot ID gives. An unknown one ("") gives none. Nor does another one if
 * both boots began at the same time: a process in another container reads another boot ID, and
 * perhaps does not see the namespaces either, so both signs would have one cause.
 */
export function signOfBoot(
  record: Pick<AttachmentRecord, "bootId" | "createdAt" | "clockMs">,
  { bootId, clock, now }: Pick<EngineDeps, "bootId" | "clock" | "now">,
): string | undefined {
  if (record.bootId === "" || record.bootId === bootId()) return undefined;
  const startedAt = Date.parse(record.createdAt) - record.clockMs;
  const isSameStart = Math.abs(Date.parse(now()) - clock() - startedAt) < readingsMs;
  return isSameStart ? undefined : otherBoot;
}
