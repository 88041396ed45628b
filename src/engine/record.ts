import type { JsonObject } from "#lib/json.ts";

/** Identifies an attachment of the runtime, as CNI does: container ID and interface name. */
export interface RecordKey {
  readonly containerId: string;
  /** CNI_IFNAME of the runtime's call; the default network's interface. */
  readonly ifName: string;
}

/** The attachments of one sandbox, as resolved at ADD: what DEL, CHECK and GC work from. */
export interface AttachmentRecord extends RecordKey {
  readonly netns: string;
  /** The version of the network configuration that the runtime passed. */
  readonly cniVersion: string;
  /** Absent for sandboxes that are not Kubernetes pods. */
  readonly pod?: { readonly namespace: string; readonly name: string; readonly uid: string };
  /** ISO 8601, for people. */
  readonly createdAt: string;
  /** In the order of attachment; the default network first. */
  readonly attachments: readonly RecordedAttachment[];
}

/** One attachment, with everything that its later calls need. */
export interface RecordedAttachment {
  /** `namespace/name` of the definition, or the CNI name of the network: what the status shows. */
  readonly displayName: string;
  readonly isDefault: boolean;
  readonly ifName: string;
  /** The complete network configuration list as resolved, side-loaded plugins and args included. */
  readonly conf: JsonObject;
  /** CNI_ARGS pairs for its delegates, in order. */
  readonly cniArgs: readonly (readonly [string, string])[];
  /** Capability arguments before the per-plugin filter. */
  readonly capabilityArgs: JsonObject;
  readonly searchPath: readonly string[];
  /** Gateways of the `default-route` request; absent when the attachment has none. */
  readonly defaultRoute?: readonly string[];
  /** The final result of its ADD as the plugin chain printed it; absent until then. */
  readonly result?: JsonObject;
}
