import { addresses, type NodeAddresses } from "./addresses.ts";

/**
 * A node's primary network, made of the reference plugins. Addresses are translated by nftables: the
 * iptables that the plugins prefer need not be on the machine.
 */
export function primaryNetwork({ podRange }: NodeAddresses): string {
  const ipam = {
    type: "host-local",
    ranges: [[{ subnet: podRange }]],
    routes: [{ dst: "0.0.0.0/0" }],
  };
  const plugins = [
    { type: "bridge", bridge: "cni0", isGateway: true, hairpinMode: true, ipam },
    { type: "portmap", backend: "nftables", capabilities: { portMappings: true } },
  ];
  return JSON.stringify({ cniVersion: "1.0.0", name: "primary", plugins }, undefined, 2);
}

/**
 * The rule that replaces kube-proxy, whose only task here would be the Service `kubernetes`. With it, pods on the pod
 * network and on the host's find the API server where every in-cluster client looks for it. @param port of the API server
 */
export function serviceRules(port: number): string {
  const chains = ["prerouting", "output"].map(
    (chain) => `chain ${chain} {
    type nat hook ${chain} priority -100
    ip daddr ${addresses.apiService} tcp dport 443 dnat to ${addresses.controlPlane}:${port}
  }`,
  );
  return `table ip kubernetes {
  ${chains.join("\n  ")}
}
`;
}

/** A taint of a Node. */
export interface Taint {
  readonly key: string;
  readonly effect: "NoSchedule" | "NoExecute";
}

/** The kubelet's configuration. @param own what differs between nodes */
export function kubeletConfig(own: object, kubernetesMinor: number): string {
  const config = {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    ...own,
    volumePluginDir: "/var/lib/kubelet/volume-plugins",
    resolvConf: "/etc/resolv.conf",
    cgroupDriver: "cgroupfs",
    enforceNodeAllocatable: [],
    failCgroupV1: false,
    failSwapOn: false,
    oomScoreAdj: 0,
    makeIPTablesUtilChains: false,
    // Whatever else fills this machine, pods are not evicted and images not removed.
    evictionHard: {
      "memory.available": "1Mi",
      "nodefs.available": "0%",
      "imagefs.available": "0%",
    },
    imageGCHighThresholdPercent: 100,
    // Containers that end are part of the scenarios: of plexusd, and of what uninstalls it while pods are attached.
    crashLoopBackOff: { maxContainerRestartPeriod: "1s" },
    // Kubernetes 1.32 to 1.34 need it for that. Older kubelets ignore the field, and back off for up to five minutes.
    featureGates: kubernetesMinor < 32 ? {} : { KubeletCrashLoopBackOffMax: true },
  };
  return JSON.stringify(config, undefined, 2);
}
