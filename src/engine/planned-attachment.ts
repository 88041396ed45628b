import { type NetConfList, parseNetConfList, toJson } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import type { Result } from "#cni/result/result.ts";
import type { RuntimeConf } from "#cni/runtime/delegate-calls.ts";
import type { JsonObject } from "#lib/json.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";
import type { AttachmentRecord, RecordedAttachment } from "./record.ts";

/** An attachment that is decided on but has no interface name yet. */
export interface ResolvedNetwork {
  /** `namespace/name` of the definition, or the CNI name: what status, events and errors show. */
  readonly displayName: string;
  readonly isDefault: boolean;
  readonly list: NetConfList;
  /** Capability arguments before the per-plugin filter. */
  readonly capabilityArgs: JsonObject;
  readonly selection?: NetworkSelection;
  /** Device-plugin resource of the definition, where it names one. */
  readonly resourceName?: string;
}

/** An attachment with all that its calls need. */
export interface PlannedAttachment extends ResolvedNetwork {
  readonly ifName: string;
  readonly cniArgs: readonly (readonly [string, string])[];
  readonly searchPath: readonly string[];
}

/** An attachment with the result of its ADD. */
export interface Attached {
  readonly planned: PlannedAttachment;
  readonly result: Result;
  /** The result as recorded: the last plugin's, in the network's version, unknown fields kept. */
  readonly raw: JsonObject;
}

/** The form in which an attachment is recorded. */
export function toRecorded(planned: PlannedAttachment): RecordedAttachment {
  const defaultRoute = planned.selection?.defaultRoute;
  return {
    displayName: planned.displayName,
    isDefault: planned.isDefault,
    ifName: planned.ifName,
    conf: toJson(planned.list),
    cniArgs: planned.cniArgs,
    capabilityArgs: planned.capabilityArgs,
    searchPath: planned.searchPath,
    ...(defaultRoute === undefined ? {} : { defaultRoute }),
  };
}

/** The record with the results of the attachments that came to their end. */
export function withResults(
  record: AttachmentRecord,
  attached: readonly Attached[],
): AttachmentRecord {
  const attachments = record.attachments.map((attachment, i) => {
    const raw = attached[i]?.raw;
    return raw === undefined ? attachment : { ...attachment, result: raw };
  });
  return { ...record, attachments };
}

/** The same error, saying which network and interface it is about. */
export function namingNetwork(
  error: unknown,
  attachment: { readonly displayName: string; readonly ifName: string },
): unknown {
  if (!(error instanceof CniError)) return error;
  return new CniError(
    error.code,
    `network ${attachment.displayName} (${attachment.ifName}): ${error.message}`,
    { cause: error, ...(error.details === undefined ? {} : { details: error.details }) },
  );
}

/** The network configuration list of a recorded attachment. */
export function recordedList(attachment: RecordedAttachment): NetConfList {
  return parseNetConfList(attachment.conf, {
    source: `the attachment record of ${attachment.displayName}`,
  });
}

/** What a runtime knows of one attachment (CNI "runtime configuration"). */
export function runtimeConf(
  sandbox: { readonly containerId: string; readonly netns: string },
  attachment: Pick<RecordedAttachment, "ifName" | "cniArgs" | "capabilityArgs" | "searchPath">,
  timeoutMs: number,
): RuntimeConf {
  return {
    containerId: sandbox.containerId,
    netns: sandbox.netns,
    ifName: attachment.ifName,
    cniArgs: attachment.cniArgs,
    capabilityArgs: attachment.capabilityArgs,
    searchPath: attachment.searchPath,
    timeoutMs,
  };
}
