import type { NetConfList } from "#cni/conf/conf.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import type { JsonObject } from "#lib/json.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";

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
  /** The definition's list of the node's links that it needs, instead of those of its first plugin. */
  readonly requiredLinks?: string;
  /** Identifies the content of its definition, before the pod's requests are merged into it. */
  readonly definition?: string;
  /** The definition's annotation: whether each device gets an attachment. @default "false" */
  readonly eachDevice?: string;
  readonly deviceCount?: RecordedAttachment["deviceCount"];
  /** The device that it is attached by; already in its plugins' configurations. */
  readonly device?: NonNullable<RecordedAttachment["device"]>;
}

/** An attachment with everything that its delegates are called with. */
export interface PlannedAttachment extends ResolvedNetwork {
  readonly ifName: string;
  readonly cniArgs: readonly (readonly [string, string])[];
  readonly searchPath: readonly string[];
}
