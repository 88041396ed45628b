import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import type { RuntimeConf } from "#cni/runtime/delegate-calls.ts";
import type { RecordedAttachment } from "./record.ts";

/** The network configuration list of a recorded attachment. */
export function recordedList(attachment: RecordedAttachment): NetConfList {
  return parseNetConfList(attachment.conf, {
    source: `the attachment record of ${attachment.displayName}`,
    unlimited: true,
  });
}

/** What does not come from an attachment's network configuration (libcni's RuntimeConf). */
export function runtimeConf(
  sandbox: { readonly containerId: string; readonly netns: string },
  attachment: Pick<RecordedAttachment, "ifName" | "cniArgs" | "capabilityArgs" | "searchPath">,
  timeoutMs: number,
): RuntimeConf {
  const { containerId, netns } = sandbox;
  const { ifName, cniArgs, capabilityArgs, searchPath } = attachment;
  return { containerId, netns, ifName, cniArgs, capabilityArgs, searchPath, timeoutMs };
}
