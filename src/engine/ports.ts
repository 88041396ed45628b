import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";

/*
 * What the engine needs from its surroundings. It does no I/O of its own: every file, process,
 * socket and clock is reached through one of these interfaces, or through the RecordStore.
 */

/** How to reach the host for the length of one call: through the shim that carries it. */
export interface DelegateHost {
  /**
   * Runs one delegate and waits for it. Resolves whatever its exit status is.
   * @throws HostGoneError when the shim has gone: the call is over, nothing more can be executed.
   */
  exec(call: DelegateCall): Promise<DelegateOutcome>;
  /**
   * Sends rtnetlink messages in one datagram in the network namespace at `netnsPath` and returns
   * everything that the kernel answered, up to the acknowledgement of the last one.
   * @throws NetnsError when the namespace cannot be entered; HostGoneError as above.
   */
  netlink(netnsPath: string, messages: Uint8Array): Promise<Uint8Array>;
}

/** The shim has gone (killed by the runtime, or crashed): the call cannot be continued or answered. */
export class HostGoneError extends Error {
  override readonly name = "HostGoneError";
}

/** A network namespace that cannot be opened or entered; `errno` is the kernel's, e.g. `ENOENT`. */
export class NetnsError extends Error {
  override readonly name = "NetnsError";
  readonly errno: number;

  constructor(message: string, errno: number) {
    super(message);
    this.errno = errno;
  }
}

/** Who a call is for, from CNI_ARGS. */
export interface PodIdentity {
  readonly namespace: string;
  readonly name: string;
  /** Absent with runtimes that do not send K8S_POD_UID. */
  readonly uid?: string;
}

/** What is used of a pod. */
export interface Pod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly annotations: Readonly<Record<string, string>>;
  /** A static pod's mirror has another UID than the kubelet's sandbox carries. */
  readonly isStatic: boolean;
}

/** Where pods and NetworkAttachmentDefinitions come from. */
export interface ClusterSource {
  /**
   * The pod, or undefined when the source is sure that there is none of that name (and, where a
   * UID is given and the pod is not static, of that UID).
   * @throws CniError 11 when the source cannot tell in time.
   */
  getPod(identity: PodIdentity, options: { signal?: AbortSignal }): Promise<Pod | undefined>;
  /** The definition, or undefined when the source is sure that there is none. @throws CniError 11 */
  getNad(
    ref: { namespace: string; name: string },
    options: { signal?: AbortSignal },
  ): Promise<NetworkAttachmentDefinition | undefined>;
  /** Why pods cannot be resolved now, in a sentence for an operator; undefined when they can. */
  notReadyReason(): string | undefined;
}

/** Publishes annotations of ours on pods. */
export interface StatusPublisher {
  /**
   * Sets annotations on the pod (null removes one). Resolves when written, or when the bounded
   * wait is over and the write goes on in the background. Never rejects: an attached pod must not
   * fail because of its annotation.
   */
  publish(pod: Pod, annotations: Readonly<Record<string, string | null>>): Promise<void>;
  /** The pod's sandbox is gone: writes that are still pending for it are dropped. Never rejects. */
  withdraw(pod: { readonly namespace: string; readonly name: string }): Promise<void>;
}

/** The events that are told of a pod. */
export type EventReason =
  | "AddedInterface"
  | "NoNetworkFound"
  | "InvalidNetworkAnnotation"
  | "AttachFailed"
  | "NetworkAccessDenied";

/** Tells the pod's owner what happened. Never waits, never throws. */
export interface EventRecorder {
  record(
    pod: Pod,
    event: { type: "Normal" | "Warning"; reason: EventReason; message: string },
  ): void;
}

/** A directory of CNI configuration files, as the host has them. */
export interface ConfFiles {
  /** File names in the directory, sorted bytewise; an absent directory is an empty one. */
  list(dir: string): Promise<string[]>;
  /** @throws Error as of node:fs */
  read(path: string): Promise<string>;
  kind(path: string): Promise<"file" | "directory" | "absent">;
}

/** Device information that device plugins left for a network (device-info specification). */
export interface DeviceInfoFiles {
  read(path: string): Promise<string | undefined>;
}

/** Structured logging: fields first, then one line. pino's loggers fit. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
}
