// SPDX-License-Identifier: Apache-2.0

/**
 * Every address that a cluster uses. All exist in the network namespaces of its hosts only.
 */
export const addresses = {
  /** The control plane's host, on the bridge that nodes are plugged in to. */
  controlPlane: "198.51.100.1",
  /** The node. */
  node: "198.51.100.10",
  /** The prefix length of the network between the hosts. */
  linkPrefix: 24,
  apiServerPort: 6443,
  serviceRange: "10.96.0.0/24",
  /** The Service `kubernetes`: the first address of the service range. */
  apiService: "10.96.0.1",
  podRange: "10.244.0.0/24",
} as const;

/** The API server, as seen from both hosts. */
export const apiServerUrl = `https://${addresses.controlPlane}:${addresses.apiServerPort}`;

/** The node's interface to the control plane's host, for networks that need a master interface. */
export const nodeInterface = "net0";

/** The bridge on the control plane's host that nodes are plugged in to. */
export const controlPlaneBridge = "nodes";
