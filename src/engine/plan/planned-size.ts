import { toJson } from "#cni/conf/conf.ts";
import { checkLimit, limits } from "#cni/limits.ts";
import type { PlannedAttachment } from "#engine/planned-attachment.ts";

/**
 * Refuses a pod of which the record and the teardown plan would become too long: each network may be
 * within its limits, and all of them together beyond what a call can keep. Adds up before either
 * is made.
 * @throws LimitError (code 100) naming the network with which it is too much
 */
export function checkPlannedSize(attachments: readonly PlannedAttachment[]): void {
  let bytes = 0;
  for (const attachment of attachments) {
    bytes += plannedBytes(attachment);
    const { displayName } = attachment;
    checkLimit(
      limits.record,
      bytes,
      `the attachment record with its teardown plan, up to network ${displayName},`,
    );
  }
}

/**
 * The configuration is in the record as a whole and in the plan in parts; everything else is in the
 * record once, and in the plan in the DEL of each plugin, whose search path is there twice.
 */
function plannedBytes({ list, cniArgs, capabilityArgs, searchPath }: PlannedAttachment): number {
  const parameters = sizeOf({ cniArgs, capabilityArgs, searchPath }) + sizeOf(searchPath);
  return 2 * sizeOf(toJson(list)) + (1 + list.plugins.length) * parameters;
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
