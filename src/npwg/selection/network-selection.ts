import { type IpFamily, ipFamily } from "#lib/ip.ts";
import { type JsonObject, parseExactly } from "#lib/json.ts";

/** A network that the pod requests: one element of the annotation (§4.1.2.1). */
export interface NetworkSelection {
  /** By default the pod's namespace. */
  readonly namespace: string;
  readonly name: string;
  readonly ifName?: string;
  /** Addresses with or without a prefix length, as written; at least one. */
  readonly ips?: readonly string[];
  /** 6, 8 or 20 bytes in lower-case colon form. */
  readonly mac?: string;
  /** 8 bytes in lower-case colon form. */
  readonly infinibandGuid?: string;
  readonly portMappings?: readonly PortMapping[];
  readonly bandwidth?: Bandwidth;
  readonly cniArgs?: JsonObject;
  /** Gateways; empty to use the gateways that the plugin set. */
  readonly defaultRoute?: readonly string[];
  readonly deviceId?: string;
  /** Selects the device of a claim of the pod: the key `dev.plexus.resourceClaim`. */
  readonly resourceClaim?: ClaimSelection;
  readonly ipamClaimReference?: string;
  /** Of an interface that the pod had and gets again: its device's ID, or an empty text. */
  readonly formerDevice?: string;
  /** The element's position in the annotation, from 1. */
  readonly position: number;
}

/** The element itself: equal for equal requests, however and wherever they are written. */
export function selectionElement({
  position: _,
  formerDevice: _device,
  ...element
}: NetworkSelection): JsonObject {
  return parseExactly(JSON.stringify(element)) as JsonObject;
}

/** A claim by its name in the pod's specification, and a request when the claim has several. */
export interface ClaimSelection {
  readonly claim: string;
  readonly request?: string;
}

/** A host port forwarded to the pod (multi-network specification v1.1 §4.1.2.1.7). */
export interface PortMapping {
  readonly hostPort: number;
  readonly containerPort: number;
  /** In lower case, as in CNI's conventions. */
  readonly protocol: "tcp" | "udp" | "sctp";
  /** The host's address to listen on; Multus' addition. */
  readonly hostIP?: string;
}

/** Bits per second, and bits (§4.1.2.1.8). */
export interface Bandwidth {
  readonly ingressRate?: number;
  readonly ingressBurst?: number;
  readonly egressRate?: number;
  readonly egressBurst?: number;
}

/** The IP families of a `default-route` key: those of its gateways, or both for an empty list. */
export function defaultRouteFamilies(gateways: readonly string[] | undefined): IpFamily[] {
  if (gateways === undefined) return [];
  if (gateways.length === 0) return [4, 6];
  return [...new Set(gateways.map(ipFamily))];
}
