import { isDefaultRoute } from "#lib/ip.ts";

/** The result of an ADD, independent of its version: CNI 1.1.0 §5 "ADD Success". */
export interface Result {
  /** The version of the text it was read from. */
  readonly cniVersion: string;
  readonly interfaces: readonly ResultInterface[];
  readonly ips: readonly ResultIp[];
  readonly routes: readonly ResultRoute[];
  readonly dns?: ResultDns;
}

/** An interface in the container or on the host. */
export interface ResultInterface {
  readonly name: string;
  readonly mac?: string;
  readonly mtu?: number;
  /** The network namespace's path, or the ID of a virtual machine; absent on the host. */
  readonly sandbox?: string;
  readonly socketPath?: string;
  readonly pciID?: string;
}

export interface ResultIp {
  /** CIDR, with host bits. */
  readonly address: string;
  readonly gateway?: string;
  /** A valid index of {@link Result.interfaces}. */
  readonly interface?: number;
  /** As read from a result older than 1.0.0, where it may be ""; absent in newer ones. */
  readonly version?: string;
}

/** One route of the sandbox interface. */
export interface ResultRoute {
  readonly dst: string;
  readonly gw?: string;
  readonly mtu?: number;
  readonly advmss?: number;
  readonly priority?: number;
  readonly table?: number;
  readonly scope?: number;
}

/** Whether it is a default route of the main table (254), which 0 and absent stand for. */
export function isDefaultOfMain({ dst, table = 0 }: ResultRoute): boolean {
  return isDefaultRoute(dst) && (table === 0 || table === 254);
}

/** DNS settings; empty ones are absent. */
export interface ResultDns {
  readonly nameservers?: readonly string[];
  readonly domain?: string;
  readonly search?: readonly string[];
  readonly options?: readonly string[];
}

/**
 * The interfaces inside the sandbox, with their indexes. Where some sandboxes are paths, others are
 * notes of the plugin for its DEL: amazon-vpc-cni adds a dummy with a device number.
 */
export function sandboxInterfaces({ interfaces }: Pick<Result, "interfaces">) {
  const inside = interfaces
    .map((link, index) => ({ link, index }))
    .filter(({ link: { sandbox = "" } }) => sandbox !== "");
  const atPaths = inside.filter(({ link: { sandbox = "" } }) => sandbox.startsWith("/"));
  return atPaths.length === 0 ? inside : atPaths;
}
