import { type NetConfList, toJson } from "#cni/conf/conf.ts";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { checkLimit, limits } from "#cni/limits.ts";
import { mayLeaveAddress } from "#cni/runtime/ipam.ts";
import type { JsonObject } from "#lib/json.ts";
import type { IgnoredRequest } from "#npwg/served-requests.ts";
import type { PlannedAttachment } from "./planned-attachment.ts";

/*
 * The size of the record with its teardown plan, before they are made: each network and each result
 * may be within its limit, but all of them together too much for one call.
 */

/** A network of a sandbox: its result is absent until it is attached. */
export interface SandboxNetwork {
  readonly planned: PlannedAttachment;
  readonly raw?: JsonObject;
  readonly ignoredRequests?: readonly IgnoredRequest[];
}

/** The planned size in bytes. @throws CniError 100 naming the network that exceeds the limit */
export function plannedSize(planned: readonly PlannedAttachment[]): number {
  let bytes = 0;
  for (const attachment of planned) {
    bytes += plannedBytes(attachment);
    check(bytes, `up to network ${attachment.displayName}`);
  }
  return bytes;
}

/** The size in bytes with the results so far. @throws CniError 100 */
export function checkSizeWithResults(planned: number, attached: readonly SandboxNetwork[]): number {
  const bytes = attached.map(resultBytes).reduce((sum, each) => sum + each, planned);
  check(bytes, "with the results so far");
  return bytes;
}

function check(bytes: number, extent: string): void {
  checkLimit(limits.record, bytes, `the attachment record with its teardown plan, ${extent},`);
}

/**
 * The configuration is in the record as a whole and in the plan in parts, the element only in the
 * record; everything else is in the record once, and in the plan in each DEL, whose search path is
 * there twice.
 */
function plannedBytes(planned: PlannedAttachment): number {
  const { list, cniArgs, capabilityArgs, searchPath, selection = {} } = planned;
  const parameters = sizeOf({ cniArgs, capabilityArgs, searchPath }) + sizeOf(searchPath);
  const ipamDels = released(list).map(({ raw }) => sizeOf(raw) + parameters);
  const dels = 2 * sizeOf(toJson(list)) + (1 + list.plugins.length) * parameters;
  return ipamDels.reduce((sum, bytes) => sum + bytes, dels + sizeOf(selection));
}

/** A result is once in the record, and in each planned DEL; ignored requests only in the record. */
function resultBytes({ planned: { list }, raw, ignoredRequests = [] }: SandboxNetwork): number {
  if (raw === undefined) return 0;
  const copies = 1 + list.plugins.length + released(list).length;
  return copies * sizeOf(raw) + sizeOf(ignoredRequests);
}

function released({ plugins }: NetConfList): readonly PluginConf[] {
  return plugins.filter(mayLeaveAddress);
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
