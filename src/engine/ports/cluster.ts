import type { JsonObject } from "#lib/json.ts";
import type { Reason } from "#lib/reasons.ts";
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
  /** Whether it is the mirror of a static pod, whose UID differs from the one in CNI_ARGS. */
  readonly isStatic: boolean;
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

/** Where pods and NetworkAttachmentDefinitions come from. */
export interface ClusterSource extends DefinitionSource {
  /**
   * Whether a pod in its namespace `default` describes podman's container of that name. Not so in a
   * cluster: a name without a namespace must not give a container the networks of a pod.
   */
  readonly namesContainers?: boolean;
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
  /** Why pods cannot be resolved at the moment, for an operator; undefined when they can. */
  notReadyReason(): string | undefined;
  /** Why pods or definitions cannot be read now, found by reading. @default as notReadyReason() */
  lookUpProblem?(): Promise<string | undefined>;
}

/** `settled` = written or impossible to write; `pending` = not yet, so the caller records it. */
export type PublishOutcome = "settled" | "pending";

/** How a status is written. */
export interface PublishOptions {
  /** Whether the caller waits until the write has ended, which may take hours. @default false */
  readonly waitsForEnd?: boolean;
  /** Whether the status is still the pod's: asked before each request. @default always */
  readonly isCurrent?: () => Promise<boolean>;
  /** Called when a request before a time would be in vain. The write waits for it. Never rejects. */
  readonly onPause?: (pause: PublishPause) => Promise<void>;
}

/** For how long a status need not be sent again. */
export interface PublishPause {
  readonly milliseconds: number;
  /** Whether the API server has asked for it, for all requests. Else it rejects this status. */
  readonly isForAll: boolean;
}

/** Publishes annotations on pods. */
export interface StatusPublisher {
  /**
   * Sets annotations on the pod (null removes one). Resolves when they are written; without
   * `waitsForEnd` also after a timeout, or when the next attempt is later than that, while the
   * write continues in the background. Never rejects: an attached pod must not fail because of its
   * annotation. Of several calls for a pod, the last one decides.
   */
  publish(
    pod: PodIdentity,
    annotations: Readonly<Record<string, string | null>>,
    options?: PublishOptions,
  ): Promise<PublishOutcome>;
  /**
   * Drops the writes of a pod whose sandbox is gone, unless they are being sent.
   * @param options.unless whether the pod keeps them: asked only if there may be one, because the
   *   answer can take long. What it throws, withdraw() throws
   */
  withdraw(pod: PodName, options?: { readonly unless?: () => Promise<boolean> }): Promise<void>;
}

/** The reasons of the events that are recorded for pods; a failed ADD has its error's. */
export type EventReason =
  | Reason
  | "LeftoverAttachment"
  | "NotAttached"
  | "NotManaged"
  | "AttachmentForgotten"
  | "DeviceInUse"
  | "DetachedByAnnotation"
  | "AddedInterface"
  | "RemovedInterface"
  | "FailedAddingInterface"
  | "FailedRemovingInterface"
  | "InterfaceAddRejected"
  | "InterfaceLost"
  | "AttachFailed";

/** Records Kubernetes events for pods. Never waits, never throws. */
export interface EventRecorder {
  record(
    pod: PodIdentity,
    event: { type: "Normal" | "Warning"; reason: EventReason; message: string },
  ): void;
}
