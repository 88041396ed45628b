import type { NodeCondition } from "#daemon/admin/node-status.ts";
import type { FindingReason } from "#lib/reasons.ts";

/** What plexusctl itself has found. */
export function found(reason: FindingReason, check: string, message: string): NodeCondition {
  return { check, reason, message };
}
