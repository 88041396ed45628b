import type { ComparedPod, PodIdentity } from "#engine/ports/cluster.ts";
import type { AllocatedDevice } from "#engine/ports/devices.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { JsonObject } from "#lib/json.ts";
import type { Reason } from "#lib/reasons.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import type { IgnoredRequest } from "#npwg/served-requests.ts";

/** Whether two keys are those of one sandbox interface. */
export function isSame(a: RecordKey | undefined, b: RecordKey | undefined): boolean {
  return a !== undefined && a.containerId === b?.containerId && a.ifName === b.ifName;
}

/** Whether two records are of one ADD: a runtime may attach a container again under its ID. */
export function isOfSameAdd(a: AttachmentRecord, b: Partial<AttachmentRecord>): boolean {
  const { createdAt, clockMs, bootId } = a;
  return createdAt === b.createdAt && clockMs === b.clockMs && bootId === b.bootId;
}

/** A sandbox that is attached, or was: its attachments as resolved at ADD, for DEL, CHECK and GC. */
export interface AttachmentRecord extends RecordKey {
  readonly netns: string;
  /**
   * Which process the path leads to, as the shim identifies it; "" if it cannot. Absent when the
   * namespace is mounted at the path, and in records of earlier releases.
   */
  readonly netnsProcess?: string;
  /** The name of the runtime's list, whose GC concerns it. Absent in earlier releases' records. */
  readonly listName?: string;
  /** The version of the runtime's network configuration. */
  readonly cniVersion: string;
  /** Absent for sandboxes that are not Kubernetes pods. */
  readonly pod?: PodIdentity;
  /** ISO 8601, for people. */
  readonly createdAt: string;
  /** When it was created, by `EngineDeps.clock`, which starts again in each boot. */
  readonly clockMs: number;
  /** The boot ID of the ADD: in another boot, states may be outdated. "" (no boot) when unknown. */
  readonly bootId: string;
  /**
   * The sandbox's own ADD has ended, although an attachment says that it is not attached: hot-plug
   * changes the networks. Absent when all are attached.
   */
  readonly addEnded?: true;
  /**
   * A newer version cannot be read, for example as the file was cut off: although this one says that
   * the ADD has not ended, it may have. Absent otherwise.
   */
  readonly hasLostUpdate?: true;
  /**
   * The annotations that the pod should show, by name; absent where it gets none, and in records of
   * earlier releases. Plexus compares them with the pod for as long as the record exists.
   */
  readonly pendingStatus?: Readonly<Record<string, string>>;
  /** Destinations of the routes that Plexus keeps to the cluster. Absent if it never kept any. */
  readonly clusterRoutes?: readonly string[];
  /** The last DEL that did not detach everything; absent until one has begun. */
  readonly teardown?: FailedTeardown;
  /** In the order of attachment; the default network first. */
  readonly attachments: readonly RecordedAttachment[];
}

/** A time by `EngineDeps.clock`, which starts again in each boot. */
interface BootTime {
  readonly bootId: string;
  readonly clockMs: number;
}

/** Why a record remains although its sandbox should be detached. */
interface FailedTeardown {
  /** ISO 8601; for people. */
  readonly firstFailedAt: string;
  /** Since when all DELs of an attachment have left only what can be given up, in the last one's boot. */
  readonly missingSince?: BootTime;
  /** ISO 8601: the last failure. */
  readonly failedAt: string;
  /** Number of failed DELs; 0 while the first one runs, or is due. */
  readonly attempts: number;
  readonly lastError: string;
  /** Of the last error; absent where a plugin gave it. */
  readonly reason?: Reason;
}

/** The device of an attachment, as it was allocated. */
interface AttachedDevice extends AllocatedDevice {
  /** "" when the pod requested the device and the definition names no resource. */
  readonly resourceName: string;
}

/**
 * `planned`, then `attempted` once a delegate may have run, and `attached` with its result. Hot-plug
 * adds two states: `detaching` before a DEL of the attachment, and `owed` after one that failed.
 */
type AttachmentState = "planned" | "attempted" | "attached" | "detaching" | "owed";

/** How a plugin ended the ADD of an attachment: in any way but with exit status 0. */
interface FailedAdd {
  /** Its position, from 0: those after it never ran. The teardown plan ends before one that could not be executed. */
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
  readonly device?: AttachedDevice;
  /**
   * How many attachments its element has, one for each device. Absent for one, and in records of
   * earlier releases.
   */
  readonly deviceCount?: number;
  /** Gateways of the `default-route` request; absent when the attachment has none. */
  readonly defaultRoute?: readonly string[];
  /** The final result of its ADD as the plugin chain printed it; absent until then. */
  readonly result?: JsonObject;
  /** Requests of the pod that the network ignored; absent when there are none, or no result. */
  readonly ignoredRequests?: readonly IgnoredRequest[];
  /** Absent when the ADD succeeded, or its end is unknown because it was interrupted. */
  readonly failedAdd?: FailedAdd;
  /** Interfaces of user-space drivers (DPDK, vhost-user), not in the kernel: CHECK skips them. */
  readonly userSpaceInterfaces?: readonly string[];
  /** The requesting element, normalized. Absent for configured networks, and in old records. */
  readonly selection?: JsonObject;
  /**
   * Identifies the content of its definition at the ADD. Absent for networks that no element of the
   * annotation requested, and in records of earlier releases.
   */
  readonly definition?: string;
  /** By interface: its addresses if they differ from the result's (`inspect: [addresses]`). */
  readonly addresses?: Readonly<Record<string, readonly string[]>>;
  /** The last DEL, which failed: in a sandbox that runs, the state is `owed`. */
  readonly teardown?: FailedTeardown;
}

/**
 * Whether a record is of this pod; without a UID, of any of this name. The kubelet makes a static
 * pod's mirror anew with another UID while the sandbox stays: the runtime knows the pod by the UID
 * that the mirror names.
 */
export function isOfPod(record: AttachmentRecord, pod: ComparedPod): boolean {
  const { namespace, name, uid, annotations } = pod;
  if (record.pod?.namespace !== namespace || record.pod.name !== name) return false;
  if (uid === undefined || record.pod.uid === uid) return true;
  const mirrored = annotations?.[mirrorAnnotation];
  return mirrored !== undefined && mirrored === calledUid(record);
}

/** The UID by which the runtime knows a record's pod, if it has told it. */
export function calledUid({ attachments }: AttachmentRecord): string | undefined {
  return attachments[0]?.cniArgs.find(([key]) => key === "K8S_POD_UID")?.[1];
}

/** Whether the ADD of a record's sandbox has ended. */
export function addHasEnded({ addEnded, attachments }: AttachmentRecord): boolean {
  return addEnded === true || attachments.every(({ state }) => state === "attached");
}

/** Whether the sandbox of a record is attached: its ADD has ended, and no DEL has begun. */
export function usableRecord(record: AttachmentRecord): boolean {
  return mayRun(record) && addHasEnded(record);
}

/**
 * Whether no DEL of a record's sandbox has begun. Its boot ID does not tell whether it runs: the
 * agent finds its namespace, or not.
 */
export function mayRun({ teardown }: AttachmentRecord): boolean {
  return teardown === undefined;
}

/**
 * Sorts records by age, the oldest first. Setting the machine's clock changes nothing for records
 * of one boot ID. Two processes of one boot can read different ones, so of two boot IDs the clock and
 * the date decide; if they contradict each other, the date was set back since an earlier boot.
 * @param bootId the present one
 */
export function byAge(bootId: string): (a: AttachmentRecord, b: AttachmentRecord) => number {
  const isPresent = (record: AttachmentRecord): number => Number(record.bootId === bootId);
  return (a, b) => {
    const byClock = a.clockMs - b.clockMs;
    if (a.bootId === b.bootId) return byClock;
    const byDate = a.createdAt.localeCompare(b.createdAt);
    return byClock * byDate > 0 ? byDate : isPresent(a) - isPresent(b) || byDate;
  };
}

/** The teardown of a record whose DEL has begun or is due, with the time in ISO 8601. */
export function begunTeardown(
  at: string,
  lastError = "its DEL has begun and not succeeded",
): FailedTeardown {
  return { firstFailedAt: at, failedAt: at, attempts: 0, lastError, reason: "TryAgainLater" };
}

/** The pod of a record, or its container if it has no pod; for people. */
export function sandboxName(record: AttachmentRecord): string {
  return record.pod === undefined
    ? record.containerId.slice(0, 12)
    : `${record.pod.namespace}/${record.pod.name}`;
}
