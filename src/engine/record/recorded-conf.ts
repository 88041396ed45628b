import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import type { RecordedAttachment } from "./record.ts";

/** The network configuration list of a recorded attachment. */
export function recordedList(attachment: RecordedAttachment): NetConfList {
  return parseNetConfList(attachment.conf, {
    source: `the attachment record of ${attachment.displayName}`,
    unlimited: true,
  });
}
