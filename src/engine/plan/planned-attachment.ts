import type { NetConfList } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import type { Result } from "#cni/result/result.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import type { JsonObject } from "#lib/json.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";
import type { IgnoredRequest } from "#npwg/served-requests.ts";

/** A network to attach, before its interface has a name. */
export interface ResolvedNetwork {
  /** `namespace/name` of the definition, or the CNI name: what status, events and errors show. */
  readonly displayName: string;
  readonly isDefault: boolean;
  readonly list: NetConfList;
  readonly capabilityArgs: JsonObject;
  readonly selection?: NetworkSelection;
  /** Chained plugins with none before them: the first gets an empty result. @default false */
  readonly isAuxiliary?: boolean;
  readonly resourceName?: string;
  /** Identifies the content of its definition, before the pod's requests are merged into it. */
  readonly definition?: string;
  /** The device that it is attached by; already in its plugins' configurations. */
  readonly device?: NonNullable<RecordedAttachment["device"]>;
}

/** An attachment with everything that its delegates are called with. */
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
  readonly ignoredRequests: readonly IgnoredRequest[];
}

/** Whether an attachment is shown. Plugins that modify others' interfaces have nothing to show. */
export function isVisible(attached: {
  readonly planned: Pick<PlannedAttachment, "isAuxiliary">;
  readonly result: Result;
}): boolean {
  const { planned, result } = attached;
  return planned.isAuxiliary !== true || result.interfaces.length + result.ips.length > 0;
}

/** The same error with the network and interface for which it happened. */
export function withNetworkContext(
  error: unknown,
  { displayName, ifName }: Pick<PlannedAttachment, "displayName" | "ifName">,
): unknown {
  return error instanceof CniError ? error.of(`${displayName} (${ifName})`) : error;
}
