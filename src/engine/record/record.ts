import type { AllocatedDevice } from "#engine/plan/devices/device-ports.ts";
import type { JsonObject } from "#lib/json.ts";
import type { IgnoredRequest } from "#npwg/served-requests.ts";

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
  /**
   * The kernel's boot at the time of the ADD (`/proc/sys/kernel/random/boot_id`). In another boot the
   * progress that {@link RecordedAttachment.state} names may be older than what was done. "" when it
   * is not known: no boot has that ID.
   */
  readonly bootId: string;
  /** In the order of attachment; the default network first. */
  readonly attachments: readonly RecordedAttachment[];
  /** Annotations by name that could not be written when the ADD ended, and still have to be. */
  readonly pendingStatus?: Readonly<Record<string, string>>;
  /** The last DEL that left something of the record behind; absent as long as none has begun. */
  readonly teardown?: FailedTeardown;
}

/** A point in time that no change of the machine's clock moves. */
export interface BootTime {
  /** As in {@link AttachmentRecord.bootId}. */
  readonly bootId: string;
  /** By `EngineDeps.clock` in that boot, in milliseconds. */
  readonly clockMs: number;
}

/** Why a record is still there although its sandbox was to be detached. */
export interface FailedTeardown {
  /** ISO 8601; for people. */
  readonly firstFailedAt: string;
  /** The first failure in the boot of the last one: grace periods count from here. Absent where nobody noted it. */
  readonly since?: BootTime;
  /** ISO 8601: the last failure. */
  readonly failedAt: string;
  /** How many DELs have failed; 0 while one has begun, or is due, and has neither failed nor succeeded. */
  readonly attempts: number;
  readonly lastError: string;
}

/** The device of an attachment, as it was allocated. */
export interface AttachedDevice extends AllocatedDevice {
  /** "" where the pod asked for the device and the definition names no resource. */
  readonly resourceName: string;
}

/**
 * How far the ADD of an attachment has come: `planned` before its first delegate, `attempted` once a
 * delegate may have been executed, `attached` with its result.
 */
type AttachmentState = "planned" | "attempted" | "attached";

/** How a plugin ended the ADD of an attachment with an error of its own. */
export interface FailedAdd {
  /** The plugin's position in its chain, from 0: the plugins after it never ran. */
  readonly position: number;
  readonly code: number;
  /** The beginning of its message. */
  readonly message: string;
}

/** One attachment, with everything that its later calls need. */
export interface RecordedAttachment {
  /** `namespace/name` of the definition, or the CNI name of the network: what the status shows. */
  readonly displayName: string;
  readonly isDefault: boolean;
  readonly ifName: string;
  readonly state: AttachmentState;
  /** The complete network configuration list as resolved, side-loaded plugins and args included. */
  readonly conf: JsonObject;
  /** CNI_ARGS pairs for its delegates, in order. */
  readonly cniArgs: readonly (readonly [string, string])[];
  /** Capability arguments before the per-plugin filter. */
  readonly capabilityArgs: JsonObject;
  readonly searchPath: readonly string[];
  /** Absent where the network needs none. */
  readonly device?: AttachedDevice;
  /** Gateways of the `default-route` request; absent when the attachment has none. */
  readonly defaultRoute?: readonly string[];
  /** The final result of its ADD as the plugin chain printed it; absent until then. */
  readonly result?: JsonObject;
  /** What the pod asked of the network and did not get; absent where there is nothing, and before the result. */
  readonly ignoredRequests?: readonly IgnoredRequest[];
  /**
   * Absent where the ADD succeeded, and where nobody knows how it ended: it was interrupted, or a plugin was killed or
   * printed no error. It may then have attached something.
   */
  readonly failedAdd?: FailedAdd;
  /**
   * Names of the result's sandbox interfaces that the kernel did not have when the ADD ended: a user-space driver has
   * them (DPDK, vhost-user), and CHECK does not look for them. Absent when there are none.
   */
  readonly userSpaceInterfaces?: readonly string[];
}

/**
 * The attachments that have to be detached, in the order of attachment. What never ran owes no DEL, but
 * progress is not durable at once: after a restart of the machine everything planned may have run.
 */
export function attachmentsToDetach(
  { attachments, bootId }: Pick<AttachmentRecord, "attachments" | "bootId">,
  currentBootId: string,
): readonly RecordedAttachment[] {
  if (bootId !== currentBootId) return attachments;
  return attachments.filter(({ state }) => state !== "planned");
}

/** Whether the machine was certainly restarted since the ADD: nothing of the sandbox is left but what is on disk. */
export function isOfEarlierBoot(
  { bootId }: Pick<AttachmentRecord, "bootId">,
  currentBootId: string,
): boolean {
  return bootId !== "" && bootId !== currentBootId;
}

/** The teardown of a record whose DEL has begun, or is due, at this time (ISO 8601). */
export function begunTeardown(
  at: string,
  reason = "its DEL has begun and not succeeded",
): FailedTeardown {
  return { firstFailedAt: at, failedAt: at, attempts: 0, lastError: reason };
}

/** The pod of a record, or its container where there is no pod; for people. */
export function sandboxName(record: AttachmentRecord): string {
  return record.pod === undefined
    ? record.containerId.slice(0, 12)
    : `${record.pod.namespace}/${record.pod.name}`;
}
