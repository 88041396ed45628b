import type { JsonObject } from "#lib/json.ts";

/** One element of the annotation: a network that the pod asks for, and how (§4.1.2.1). */
export interface NetworkSelection {
  /** The pod's own where the annotation names none. */
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
  /** Gateways; empty = the attachment gets the default route by the gateways that its plugin set. */
  readonly defaultRoute?: readonly string[];
  readonly deviceId?: string;
  /** Chooses the device that was allocated for a claim of the pod: the key `dev.plexus.resourceClaim`. */
  readonly resourceClaim?: ClaimSelection;
  readonly ipamClaimReference?: string;
  /** The element's place in the annotation, counted from 1. */
  readonly position: number;
}

/** Which of the pod's claims, as its specification names them, and which request where a claim has several. */
export interface ClaimSelection {
  readonly claim: string;
  readonly request?: string;
}

/** A port of the host that leads to one of the pod (multi-network specification v1.1 §4.1.2.1.7). */
export interface PortMapping {
  readonly hostPort: number;
  readonly containerPort: number;
  /** As in CNI's conventions: lower case. */
  readonly protocol: "tcp" | "udp" | "sctp";
  /** Multus' addition: the host's address on which to accept. */
  readonly hostIP?: string;
}

/** Bits per second, and bits (§4.1.2.1.8). */
export interface Bandwidth {
  readonly ingressRate?: number;
  readonly ingressBurst?: number;
  readonly egressRate?: number;
  readonly egressBurst?: number;
}
