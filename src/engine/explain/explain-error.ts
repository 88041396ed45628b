import { type FindingReason, type Reason, reasonRow } from "#lib/reasons.ts";

/** A failed call or network. */
export interface Failure {
  /** With the details. */
  readonly message: string;
  /** The network that it concerns; the message may begin with it. */
  readonly subject?: string;
  readonly code?: number;
  /** Absent where a plugin gave the error. */
  readonly reason?: Reason;
  /** Where it happened, if that is known. */
  readonly node?: string;
}

/** An error of plugins that users meet, recognized by its words. */
interface PluginError {
  readonly finding: FindingReason;
  /** One of these is in the message, in any case; … stands for anything between two parts. */
  readonly words: readonly string[];
  /** What to do, as the second half of a sentence that begins with the error; NODE is the node. */
  readonly step: string;
}

/**
 * The words of the reference plugins and of the kernel; the first that fits counts. `make docs`
 * writes docs/operations/troubleshooting.md from this table.
 * @internal
 */
export const pluginErrors: readonly PluginError[] = [
  {
    finding: "IpamExhausted",
    words: [
      "no IP addresses available",
      "no available IP",
      "insufficient … IP",
      "pool … exhausted",
    ],
    step: 'make the network\'s range larger, or release addresses: kubectl plexus records --leftovers NODE lists those of deleted pods, and docs/operations/troubleshooting.md, "Leaked addresses", finds others',
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
    // The kernel's words for ERANGE, and those of plugins for a VLAN and an MTU.
    finding: "ValueOutOfRange",
    words: [
      ...["numerical result out of range", "invalid MTU"],
      ...["VLAN … out of range", "VLAN … must be between"],
    ],
    step: "correct the definition: the name of an interface has at most 15 characters, a VLAN ID is at most 4094, an MTU at most its master's",
  },
  {
    finding: "AddressOutsideRange",
    words: [
      "requested IP … not in",
      "failed to allocate all requested IPs",
      "IP … out of range",
      "address … out of range",
    ],
    step: "request an address within the network's range",
  },
  {
    finding: "InvalidNetworkConfig",
    words: [
      ...["no IP ranges specified", "not in network", "invalid CIDR address", "CIDR notation"],
      ...["cannot unmarshal", "field is required", "unknown … mode"],
    ],
    step: reasonRow("InvalidNetworkConfig").step,
  },
  {
    finding: "PluginDaemonUnavailable",
    words: ["dial unix"],
    step: "start the plugin's daemon on this node, which listens on the socket that the message names (of the plugin dhcp: deploy/overlays/dhcp)",
  },
  {
    // Of the daemon of the plugin dhcp.
    finding: "PluginTimeout",
    words: ["no more tries"],
    step: "no DHCP server has answered: check that one serves this network, and has free addresses",
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
    step: reasonRow("MasterMissing").step,
  },
  {
    finding: "KernelSupport",
    words: ["operation not supported", "unknown device type", "protocol not supported"],
    step: "load the kernel module that the plugin needs on this node, or use another plugin",
  },
  {
    // By a plugin that calls another one, such as one for IPAM.
    finding: "PluginMissing",
    words: ["failed to find plugin"],
    step: reasonRow("PluginMissing").step,
  },
  {
    finding: "PluginDenied",
    words: ["operation not permitted", "permission denied", "read-only file system"],
    step: "check whether SELinux, AppArmor or a read-only file system stops the plugin",
  },
];

/** Any other error of a plugin. @internal */
export const pluginFailed = {
  finding: "PluginFailed",
  step: "correct what the plugin's message names, in the definition or on the node",
} as const;

/** Codes of the specification that mean the same from every plugin. */
const sharedReasons: readonly Reason[] = ["IncompatibleCniVersion", "InvalidNetns"];

/** What an error is, and what to do: by its reason, or by the words of the plugin that gave it. */
export function explainError({
  message,
  code,
  reason,
}: Failure): Pick<PluginError, "finding" | "step"> {
  const known = pluginErrors.find(({ words }) => words.some((phrase) => says(message, phrase)));
  const shared = sharedReasons.find((each) => reasonRow(each).code === code);
  const finding = reason ?? (known === undefined ? shared : undefined);
  if (finding === undefined) return known ?? pluginFailed;
  return { finding, step: reasonRow(finding).step };
}

/** Whether the parts of a phrase occur in a message, one after the other. */
function says(message: string, phrase: string): boolean {
  const text = message.toLowerCase();
  let from = 0;
  for (const part of phrase.toLowerCase().split(" … ")) {
    const at = text.indexOf(part, from);
    if (at < 0) return false;
    from = at + part.length;
  }
  return true;
}
