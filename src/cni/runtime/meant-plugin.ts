import { didYouMean } from "#lib/did-you-mean.ts";

/** Plugins that definitions name often. Which of them a node has is not known here. */
const knownTypes = [
  ...["bridge", "ptp", "macvlan", "ipvlan", "vlan", "host-device", "dummy", "loopback", "tap"],
  ...["bandwidth", "firewall", "portmap", "sbr", "tuning", "vrf"],
  ...["dhcp", "host-local", "static", "whereabouts"],
  ...[
    "calico",
    "calico-ipam",
    "cilium-cni",
    "flannel",
    "ib-sriov",
    "ipoib",
    "ovs",
    "rdma",
    "sriov",
  ],
];

/** Adds to an error which plugin a misspelt type meant, if the error is that it cannot be found. */
export function withMeantPlugin(message: string): string {
  const type = /failed to find plugin "([^"]{1,64})"/.exec(message)?.[1];
  if (type === undefined || knownTypes.includes(type)) return message;
  return `${message}${didYouMean(type, knownTypes)}`;
}
