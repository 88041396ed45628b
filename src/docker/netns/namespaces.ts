/** A network interface as the kernel shows it. */
export interface LinkState {
  readonly ifName: string;
  readonly mac?: string;
  /** `veth`, `macvlan` …; "" for devices. */
  readonly kind: string;
  /** Of global scope, with prefix length. */
  readonly addresses: readonly string[];
  /** The unicast routes of the main table over the interface. */
  readonly routes: readonly LinkRoute[];
}

/** A route over an interface. */
export interface LinkRoute {
  /** With prefix length. */
  readonly dst: string;
  readonly gateway?: string;
  readonly metric: number;
  /** The kernel added it for an address. */
  readonly isFromAddress: boolean;
}

/** An interface to move or add, with its addresses. */
export interface LinkAddresses {
  readonly ifName: string;
  readonly addresses: readonly string[];
}

/**
 * What is at a path. A namespace that is mounted where this process cannot see it is `other`. With
 * `hidden` even the directory is missing, so a missing file in it proves nothing.
 */
export type FoundAtPath = "namespace" | "other" | "nothing" | "hidden";

/** The machine's network namespaces and their interfaces. Every method throws an Error. */
export interface NetworkNamespaces {
  /** The path of the staging namespace `name`, whether or not it exists. */
  pathOf(name: string): string;
  find(path: string): Promise<FoundAtPath>;
  /** The names of all namespaces from {@link create}, in any process, including unmounted ones. */
  names(): Promise<string[]>;
  /** Creates an empty namespace. Keeps an existing one, and replaces an unmounted one. */
  create(name: string): Promise<void>;
  /** Removes a namespace and its interfaces, or its unmounted file, if it exists. */
  remove(name: string): Promise<void>;
  /** The names of a namespace's interfaces, with `lo`; by default of this process's namespace. */
  links(path?: string): Promise<string[]>;
  state(path: string, ifName: string): Promise<LinkState>;
  /** Moves an interface into this process's namespace and renames it. */
  moveOut(from: string, ifName: string, hostIfName: string): Promise<void>;
  /** Moves an interface from this process's namespace, renames it, and restores its addresses. */
  moveIn(into: string, link: LinkAddresses & { readonly hostIfName: string }): Promise<void>;
  /** Adds an interface with addresses to replace one that is gone. */
  addSubstitute(into: string, link: LinkAddresses): Promise<void>;
}
