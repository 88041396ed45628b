import { CniErrorCode } from "#cni/error.ts";

/** An error that people meet, by its words or its code, and what to do about it. */
interface KnownError {
  readonly finding: string;
  readonly code?: number;
  /** One of these is in the message, whatever the case; … stands for anything between two parts. */
  readonly words?: readonly string[];
  /** What to do, as the second half of a sentence that begins with the error. */
  readonly step: string;
}

/** A failure in words, as an ADD or a DEL returned it. */
export interface FailureText {
  readonly message: string;
  readonly code?: number;
}

/*
 * The first that fits counts: those of Plexus itself by their own words, then those of the reference
 * plugins by theirs, then whole codes.
 */
const knownErrors: readonly KnownError[] = [
  {
    finding: "missing-definition",
    words: ["there is no NetworkAttachmentDefinition … which the pod asks for"],
    step: "create the definition, or correct name and namespace in the annotation; the kubelet tries again by itself",
  },
  {
    finding: "forbidden-namespace",
    code: CniErrorCode.AccessDenied,
    step: "move the definition into the pod's namespace or into one of globalNamespaces",
  },
  {
    finding: "meta-plugin",
    words: ["is a meta-plugin and cannot be a delegate"],
    step: "name the network's own plugin in the definition: Plexus calls it itself",
  },
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
    finding: "undeclared-request",
    words: ["no plugin of it has the capability"],
    step: 'declare it in the definition ("capabilities": {…: true}) on a plugin that supports it, or take the key out of the annotation',
  },
  {
    finding: "missing-device",
    words: ["its definition needs a device of resource"],
    step: "add the resource to the limits of a container, as often as networks need it, and create the pod again",
  },
  {
    finding: "foreign-device",
    words: ["asks for the device … was not allocated"],
    step: "take the deviceID out of the annotation, or name one that plexusctl devices shows for the pod",
  },
  {
    finding: "kubelet-away",
    words: ["cannot find out which devices"],
    step: "see whether the kubelet runs and whether plexusd's pod has its pod-resources directory; the pod starts once it answers",
  },
  {
    finding: "repeated-network",
    words: ["cannot be attached twice to one pod"],
    step: "use a second definition whose configuration has another name",
  },
  {
    finding: "interface-name-taken",
    words: ["interface … is requested by network", "interface … , requested by network"],
    step: "give each network of the annotation an interface name of its own, other than eth0",
  },
  {
    finding: "default-interface-name",
    words: ["replaces the default network and must be on interface"],
    step: "take the interface name out of the default-network annotation",
  },
  {
    finding: "over-limit",
    words: ["more than the limit of"],
    step: "make it smaller: docs/configuration.md lists the limits, which cannot be changed",
  },
  {
    finding: "unreachable-gateway",
    words: ["default route through … : gateway"],
    step: "name a gateway in the default-route of the annotation that is in the interface's network",
  },
  {
    finding: "default-route-taken",
    words: ["default route through … : interface"],
    step: "remove the route that something else has set in the pod, or the default-route from the annotation",
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
    finding: "definition-file-missing",
    words: ["no net configuration with name", "no net configurations found in"],
    step: "put the configuration into the definition's spec.config, or a file with that network name into confDir on this node",
  },
  {
    finding: "invalid-definition",
    words: ['NetworkAttachmentDefinition "'],
    step: "correct the definition's spec.config",
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
  {
    finding: "damaged-record",
    words: ["attachment record … is unusable"],
    step: "look at the file that it names; a DEL of the pod goes on without it, what it held may have to be released by hand",
  },
  {
    finding: "already-attached",
    code: CniErrorCode.AlreadyAttached,
    step: "the container runtime must DEL this sandbox first; delete the pod if it does not by itself",
  },
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
    words: ["requested IP … not in", "out of range", "not belong to"],
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
    words: ["operation not permitted", "permission denied"],
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
  {
    finding: "release-mismatch",
    words: ["plexus executable and plexusd are of different releases"],
    step: "wait until the DaemonSet's rollout has reached this node",
  },
];

/** What is known of an error; a failed plugin that nobody knows has its own words and a general step. */
export function explainError(error: FailureText): { finding: string; step: string } {
  const known = knownErrors.find(
    ({ code, words }) =>
      (code === undefined || code === error.code) &&
      (words === undefined || words.some((phrase) => says(error.message, phrase))),
  );
  if (known !== undefined) return { finding: known.finding, step: known.step };
  return {
    finding: "plugin-error",
    step: "the message is the plugin's own: correct what it names in the definition or on the node",
  };
}

/** Whether the parts of a phrase occur in a message, one after the other. */
function says(message: string, phrase: string): boolean {
  const text = message.toLowerCase();
  let from = 0;
  for (const part of phrase.toLowerCase().split("…")) {
    const at = text.indexOf(part.trim(), from);
    if (at < 0) return false;
    from = at + part.trim().length;
  }
  return true;
}

/** Every finding of an error, for the test that each of them is provoked. @internal */
export const errorFindings: readonly string[] = knownErrors.map(({ finding }) => finding);
