/**
 * Every address that a cluster uses. All exist in the network namespaces of its hosts only.
 */
export const addresses = {
  /** The control plane's host, on the bridge that nodes are plugged in to. */
  controlPlane: "198.51.100.1",
  /** The prefix length of the network between the hosts. */
  linkPrefix: 24,
  apiServerPort: 6443,
  serviceRange: "10.96.0.0/24",
  /** The Service `kubernetes`: the first address of the service range. */
  apiService: "10.96.0.1",
} as const;

/** The addresses that one node of a cluster uses. */
export interface NodeAddresses {
  readonly node: string;
  /** The node's part of the primary network. */
  readonly podRange: string;
}

/** The addresses of the first node (1), the second, and so on. */
export function nodeAddresses(index: number): NodeAddresses {
  return { node: `198.51.100.${9 + index}`, podRange: `10.244.${index - 1}.0/24` };
}

/** The API server, as seen from every host. */
export const apiServerUrl = `https://${addresses.controlPlane}:${addresses.apiServerPort}`;

/** A node's interface to the control plane's host and to other nodes, for networks that need a master interface. */
export const nodeInterface = "net0";

/** The bridge on the control plane's host that nodes are plugged in to. */
export const controlPlaneBridge = "nodes";
