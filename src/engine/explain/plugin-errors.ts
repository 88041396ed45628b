/** An error of plugins that users meet, recognized by its words. */
interface PluginError {
  readonly finding: string;
  /** One of these is in the message, in any case; … stands for anything between two parts. */
  readonly words: readonly string[];
  /** What to do, as the second half of a sentence that begins with the error. */
  readonly step: string;
}

/** The words of the reference plugins and of the kernel; the first that fits counts. */
export const pluginErrors: readonly PluginError[] = [
  {
    finding: "IpamExhausted",
    words: [
      "no IP addresses available",
      "no available IP",
      "insufficient … IP",
      "pool … exhausted",
    ],
    step: "make the network's range larger, or release addresses: plexusctl records --orphans lists those of deleted pods",
  },
  {
    finding: "AddressTaken",
    words: [
      "requested IP … not available",
      "requested IP … in use",
      "IP … already allocated",
      "has been allocated",
    ],
    step: "request another address, or delete the pod that has this one",
  },
  {
    finding: "AddressOutsideRange",
    words: ["requested IP … not in", "failed to allocate all requested IPs", "out of range"],
    step: "request an address within the network's range",
  },
  {
    finding: "MasterMissing",
    words: [
      "link not found",
      "failed to lookup master",
      "no such network interface",
      "no such device",
      "could not find host device",
    ],
    step: "set the definition's master or device to an interface that this node has",
  },
  {
    finding: "KernelSupport",
    words: ["operation not supported", "unknown device type", "protocol not supported"],
    step: "load the kernel module that the plugin needs on this node, or use another plugin",
  },
  {
    finding: "PluginDenied",
    words: ["operation not permitted", "permission denied", "read-only file system"],
    step: "check whether SELinux, AppArmor or a read-only file system stops the plugin",
  },
];
