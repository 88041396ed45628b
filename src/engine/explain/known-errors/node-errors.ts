import type { KnownError } from "./known-error.ts";

/** What is wrong with the node, its configuration or its neighbours, in the words of Plexus and of the kernel. */
export const nodeErrors: readonly KnownError[] = [
  {
    finding: "missing-plugin",
    words: ["failed to find plugin"],
    step: "install the plugin on this node, or correct its type in the definition",
  },
  {
    finding: "refused-plugin",
    words: ["may not be executed: "],
    step: "make the plugin a file that root alone can write, in the container runtime's plugin directory or one of /etc/plexus/plugin-dirs",
  },
  {
    finding: "kubelet-away",
    words: ["cannot find out which devices"],
    step: "see whether the kubelet runs and whether plexusd's pod has its pod-resources directory; the pod starts once it answers",
  },
  {
    finding: "primary-not-ready",
    words: ["its readiness file … does not exist"],
    step: "see why the primary CNI's pod on this node is not ready",
  },
  {
    finding: "default-network-missing",
    words: [
      "cannot use network … there is no NetworkAttachmentDefinition",
      "no default network is configured",
    ],
    step: "create what clusterNetwork or defaultNetworks of plexusd's configuration names, or correct it there",
  },
  {
    finding: "api-away",
    words: ["from the API server within"],
    step: "the pod starts once the API server answers again; the kubelet tries by itself",
  },
  {
    finding: "pod-replaced",
    words: ["it was deleted or replaced"],
    step: "nothing has to be done: the kubelet removes this sandbox",
  },
  {
    finding: "state-directory",
    words: ["cannot … the attachment record in", "ENOSPC", "no space left on device"],
    step: "free space and inodes on the node's disk, and see that /var/lib/plexus can be written",
  },
];
