import { CniErrorCode } from "#cni/error.ts";
import type { KnownError } from "./known-error.ts";

/** What plugins fail with: words of the reference plugins, then whole codes. */
export const pluginErrors: readonly KnownError[] = [
  {
    finding: "ipam-exhausted",
    words: [
      "no IP addresses available",
      "no available IP",
      "insufficient … IP",
      "pool … exhausted",
    ],
    step: "make the network's range larger, or release addresses: plexusctl records --orphans shows those of pods that are gone",
  },
  {
    finding: "address-taken",
    words: [
      "requested IP … not available",
      "requested IP … in use",
      "IP … already allocated",
      "has been allocated",
    ],
    step: "ask for another address, or delete the pod that has this one",
  },
  {
    finding: "address-outside-range",
    words: ["requested IP … not in", "failed to allocate all requested IPs", "out of range"],
    step: "ask for an address within the network's range",
  },
  {
    finding: "master-missing",
    words: [
      "link not found",
      "failed to lookup master",
      "no such network interface",
      "no such device",
      "could not find host device",
    ],
    step: "name an interface that this node has as the definition's master or device",
  },
  {
    finding: "kernel-support",
    words: ["operation not supported", "unknown device type", "protocol not supported"],
    step: "load the kernel module that the plugin needs on this node, or use another plugin",
  },
  {
    finding: "plugin-denied",
    words: ["operation not permitted", "permission denied", "read-only file system"],
    step: "see whether SELinux, AppArmor or a read-only file system keeps the plugin from its work",
  },
  {
    finding: "plugin-timeout",
    words: ["timed out after"],
    step: "see what the plugin waits for (its daemon, a DHCP server, a lock); delegateTimeoutMs is how long it may take",
  },
  {
    finding: "plugin-crashed",
    words: ["killed by signal"],
    step: "see the kernel's log for a crash or a lack of memory of the plugin",
  },
  {
    finding: "plugin-output",
    words: ["cannot decode result", "nothing was printed", "not valid JSON"],
    step: "report it to the makers of the plugin, which must print a CNI result",
  },
  {
    finding: "incompatible-version",
    code: CniErrorCode.IncompatibleCniVersion,
    step: "set a cniVersion that the plugin supports in the definition, or update the plugin",
  },
  {
    finding: "sandbox-gone",
    code: CniErrorCode.InvalidNetns,
    step: "nothing has to be done: the container runtime makes a new sandbox",
  },
];
