import type { JsonObject } from "#lib/json.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";
import type { ClusterSource, Pod } from "./cluster.ts";

/*
 * What the engine needs in order to attach networks by devices: who allocated which to a pod, and
 * the files that describe them.
 */

/** A device that a pod was allocated. */
export interface AllocatedDevice {
  /** As its allocator names it: a PCI address, a link's name, or what else a plugin understands. */
  readonly id: string;
  /** How that is known, for people: `the kubelet's pod-resources API`. */
  readonly source: string;
  /** The claims of the pod that it was allocated for; absent where there are no claims. */
  readonly claims?: readonly ClaimRequest[];
}

/** A request of a claim: names of the pod's specification and of the claim's. @internal */
export interface ClaimRequest {
  readonly claim: string;
  readonly request: string;
}

/** A network that is attached by a device. */
export interface DeviceNetwork {
  readonly displayName: string;
  /** Of the definition; absent where only the pod's selection names a device. */
  readonly resourceName?: string;
  /** The pod's request for it; absent for a network of every pod. */
  readonly selection?: NetworkSelection;
}

/** What a {@link DeviceSource} is asked. */
export interface DeviceLookup {
  readonly pod: Pod;
  /** The networks that need devices, in the order of attachment. */
  readonly networks: readonly DeviceNetwork[];
  /** Spec and status of the pod, read on first use; see {@link ClusterSource.getPodObject}. */
  readonly podObject: () => Promise<JsonObject | undefined>;
  readonly signal: AbortSignal;
}

/**
 * Tells which devices a pod was allocated: by the kubelet's device plugins, or by dynamic resource
 * allocation (src/devices). Devices are in the order in which networks get them. A resource of
 * which two sources have devices is refused, so that none has to know of the others.
 */
export interface DeviceSource {
  /**
   * The pod's devices by resource, each ID once; resources without any may be left out. Devices
   * without a resource, which only a selection by their claim finds, are under "".
   * @throws CniError 11 when that cannot be determined in time, 100 when the allocation cannot be
   *   used
   */
  devicesOf(lookup: DeviceLookup): Promise<ReadonlyMap<string, readonly AllocatedDevice[]>>;
}

/** Devices by resource.k8s.io/v1; everything is read anew from the API server. */
export interface ResourceApi {
  /**
   * A ResourceClaim; undefined when it does not exist.
   * @throws ResourceApiUnavailableError; CniError 11 when there is no answer in time; the signal's
   *   reason
   */
  getClaim(
    ref: { readonly namespace: string; readonly name: string },
    options: { readonly signal: AbortSignal },
  ): Promise<JsonObject | undefined>;
  /** A driver's ResourceSlices, for one node alone and for more than one. @throws as above */
  listSlices(
    driver: string,
    options: { readonly nodeName: string; readonly signal: AbortSignal },
  ): AsyncIterable<JsonObject>;
}

/** The cluster does not have resource.k8s.io/v1, or Plexus may not read it. */
export class ResourceApiUnavailableError extends Error {
  override readonly name = "ResourceApiUnavailableError";
}

/** Files with device information, which device plugins, CNI plugins and pods exchange. */
export interface DeviceInfoFiles {
  /** @throws Error as of node:fs; undefined when there is no file */
  read(path: string): Promise<string | undefined>;
  /** Replaces `to`, and makes its directory if missing. @returns whether `from` exists */
  copy(from: string, to: string): Promise<boolean>;
  /** A file that is not there counts as removed. @throws Error as of node:fs */
  remove(path: string): Promise<void>;
}
