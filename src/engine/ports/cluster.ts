import type { Condition } from "#lib/condition.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { JsonObject } from "#lib/json.ts";
import type { FindingReason } from "#lib/reasons.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";

/** How people name a pod. */
export interface PodName {
  readonly namespace: string;
  readonly name: string;
}

/** One of the pods that have had a name. */
export interface PodIdentity extends PodName {
  readonly uid: string;
}

/** The pod for which a call is made, from CNI_ARGS: not all runtimes send K8S_POD_UID. */
export interface CalledPod extends PodName {
  readonly uid?: string;
}

/** The parts of a pod that the engine uses. */
export interface Pod extends PodIdentity {
  readonly annotations: Readonly<Record<string, string>>;
}

/** What the API says about a pod of this node, and its annotations. */
export interface PodState extends Pod {
  /** The node that it is bound to; absent while it is not scheduled. */
  readonly node?: string;
  readonly hostNetwork: boolean;
  readonly phase: string;
  readonly isTerminating: boolean;
  /** The addresses of its present sandbox. */
  readonly podIps: readonly string[];
  /** The network-status annotation, of Plexus or another meta-plugin. */
  readonly networkStatus: string | undefined;
}

/** Where NetworkAttachmentDefinitions come from. */
export interface DefinitionSource {
  /** Undefined if it certainly does not exist. @throws CniError 11 if that is not known in time */
  getNad(
    ref: { namespace: string; name: string },
    options: { signal?: AbortSignal },
  ): Promise<NetworkAttachmentDefinition | undefined>;
  /** Definitions that are known without asking, to suggest one for a wrong name. @default none */
  knownNads?(): Iterable<NetworkAttachmentDefinition>;
}

/** Networks in CIDR notation. */
export interface ClusterRanges {
  /** The ranges of Services; absent if the API server has no ServiceCIDRs, before Kubernetes 1.33. */
  readonly services?: readonly string[];
  /** This node's own addresses. */
  readonly node: readonly string[];
}

/** Where pods and NetworkAttachmentDefinitions come from. */
export interface ClusterSource extends DefinitionSource {
  /**
   * The pod; undefined when it certainly does not exist with that name and (unless static) UID, or
   * without a UID on this node.
   * @throws CniError 11 when that cannot be determined in time
   */
  getPod(identity: CalledPod, options: { signal?: AbortSignal }): Promise<Pod | undefined>;
  /** The pod with this name, if it is known without asking. @default none */
  knownPod?(pod: PodName): Pod | undefined;
  /**
   * The complete pod, read from the API; undefined when it is gone, or the source has only
   * metadata.
   * @throws CniError 11 as above
   */
  getPodObject(
    identity: CalledPod,
    options: { signal?: AbortSignal },
  ): Promise<JsonObject | undefined>;
  /** Whether a namespace has labels that match a selector. @throws CniError 11 */
  namespaceMatches(
    namespace: string,
    selector: string,
    options: { signal?: AbortSignal },
  ): Promise<boolean>;
  /** What the API says of the cluster's addresses. @default unknown @throws CniError 11 */
  clusterRanges?(options: { signal?: AbortSignal }): Promise<ClusterRanges | undefined>;
  /** Why pods cannot be resolved at the moment, for an operator; undefined when they can. */
  notReadyReason(): string | undefined;
  /** Why pods or definitions cannot be read now, found by reading. @default as notReadyReason() */
  lookUpProblem?(): Promise<string | undefined>;
}

/** A pod whose status is compared: of a detached one, only the name and perhaps the UID are known. */
export type ComparedPod = CalledPod & Partial<Pick<Pod, "annotations">>;

/**
 * What network-status a pod should show, as the records have it at this moment; undefined while
 * nothing is written.
 * @param own the record of the ADD that waits: while it is attached, no other is searched for
 */
export type WantedStatus = (pod: ComparedPod, own?: RecordKey) => Promise<string | undefined>;

/** Why a pod does not show its status. */
export interface StatusFailure {
  readonly message: string;
  /** Whether the API server refuses the write: neither time nor another try will help. */
  readonly isRejected: boolean;
}

/** A failure that time may mend. */
export function statusFailure(reason: unknown): StatusFailure {
  return { message: errorMessage(reason), isRejected: false };
}

/** A failure as what is found about the pod. */
export function statusCondition({ message, isRejected }: StatusFailure): Condition {
  if (!isRejected)
    return {
      reason: "StatusPending",
      message: `the network-status annotation could not be written yet: ${message}`,
      next: "plexusd retries until the API server accepts it",
    };
  return {
    reason: "StatusRejected",
    message: `the API server rejects the network-status annotation: ${message}`,
    step: "change the role or the admission policy that rejects it",
    next: "plexusd retries within ten minutes",
  };
}

/**
 * Makes pods show what their records say: it compares, and writes the difference until there is
 * none. Only `shown` may reject: an attached pod must not fail because of its annotation.
 */
export interface StatusPublisher {
  /** How to find out what pods should show. Called before all others. */
  follow(wanted: WantedStatus): void;
  /** The record of the pod has changed. */
  changed(pod: Pod): void;
  /**
   * Resolves when the pod shows its status, or with the reason when the wait is over.
   * @param own the record of an ADD that waits
   */
  shown(pod: Pod, signal: AbortSignal, own?: RecordKey): Promise<StatusFailure | undefined>;
  /** A sandbox of the pod is detached. */
  detached(pod: ComparedPod): Promise<void>;
  /** The pods whose last write failed, by `namespace/name`. */
  failures(): ReadonlyMap<string, StatusFailure>;
}

/** What an event says; its reason is also its type. A failed ADD has its error's reason. */
export interface EventText {
  readonly reason: FindingReason;
  readonly message: string;
}

/** Records Kubernetes events for pods. Never waits, never throws. */
export interface EventRecorder {
  record(pod: PodIdentity, event: EventText): void;
}
