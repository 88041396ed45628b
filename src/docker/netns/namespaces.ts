/** A network interface as the kernel has it. */
export interface LinkState {
  readonly ifName: string;
  readonly mac?: string;
  /** `veth`, `macvlan` …; "" for devices. */
  readonly kind: string;
  /** With prefix length; those of the scope global. */
  readonly addresses: readonly string[];
  /** The unicast routes of the main table that lead over it. */
  readonly routes: readonly LinkRoute[];
}

/** A route over an interface. */
export interface LinkRoute {
  /** With prefix length. */
  readonly dst: string;
  readonly gateway?: string;
  readonly metric: number;
  /** Made by the kernel for an address. */
  readonly isFromAddress: boolean;
}

/**
 * What is at a path: a network namespace, something else, or nothing. The file of a namespace that is mounted
 * where this process does not see it is something else. `hidden`: not even the directory is there, so that
 * nothing follows from what is missing in it.
 */
export type FoundAtPath = "namespace" | "other" | "nothing" | "hidden";

/** Network namespaces of the machine, and the interfaces in them. Every method throws an Error that names the problem. */
export interface NetworkNamespaces {
  /** The path of the namespace of a name. */
  pathOf(name: string): string;
  /** What is at a path. */
  find(path: string): Promise<FoundAtPath>;
  /** The names of all namespaces that {@link create} has made, by any process, with those that lost their mount. */
  names(): Promise<string[]>;
  /** Makes an empty namespace; one that is there already stays, and one that lost its mount is replaced. */
  create(name: string): Promise<void>;
  /** Removes a namespace with everything in it, or what is left of one. One that is not there is no error. */
  remove(name: string): Promise<void>;
  /** The names of the interfaces of a namespace, `lo` among them; without a path of this process's own. */
  links(path?: string): Promise<string[]>;
  /** What the kernel has of an interface. */
  state(path: string, ifName: string): Promise<LinkState>;
  /** Moves an interface out into this process's own namespace, and renames it. */
  moveOut(from: string, ifName: string, ownName: string): Promise<void>;
  /** Moves one of this process's own interfaces into a namespace, renames it, and sets its addresses again. */
  moveIn(
    into: string,
    link: { ownName: string; ifName: string; addresses: readonly string[] },
  ): Promise<void>;
  /** Makes an interface with addresses that stands for one that is gone. */
  addSubstitute(
    into: string,
    link: { ifName: string; addresses: readonly string[] },
  ): Promise<void>;
}
