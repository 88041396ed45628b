/** What an ADD reports, whatever the version it was printed in: CNI 1.1.0 §5 "ADD Success". */
export interface Result {
  /** The version that it was read in. */
  readonly cniVersion: string;
  readonly interfaces: readonly ResultInterface[];
  readonly ips: readonly ResultIp[];
  readonly routes: readonly ResultRoute[];
  /** Absent when there is nothing in it. */
  readonly dns?: ResultDns;
}

/** One interface, in the container or on the host. */
export interface ResultInterface {
  readonly name: string;
  readonly mac?: string;
  readonly mtu?: number;
  /** The network namespace's path; absent for interfaces of the host. */
  readonly sandbox?: string;
  readonly socketPath?: string;
  readonly pciID?: string;
}

/** One address. */
export interface ResultIp {
  /** CIDR, with host bits. */
  readonly address: string;
  readonly gateway?: string;
  /** An index of {@link Result.interfaces}, always within it. */
  readonly interface?: number;
  /** As read, for results below 1.0.0, where it may be ""; absent in newer ones. */
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

/** DNS settings; what is empty is absent. */
export interface ResultDns {
  readonly nameservers?: readonly string[];
  readonly domain?: string;
  readonly search?: readonly string[];
  readonly options?: readonly string[];
}
