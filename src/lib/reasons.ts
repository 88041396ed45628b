/**
 * The stable reasons of Plexus's own errors, by CNI error code (src/cni/error.ts), with what to do.
 * `make docs` writes docs/operations/troubleshooting.md from this table.
 */
const table = {
  1: {
    IncompatibleCniVersion:
      "set a cniVersion that the plugin supports in the definition, not only inside of its plugins, or update the plugin",
  },
  3: {
    UnknownContainer:
      "update the container runtime: it passed a container ID that CNI does not allow",
  },
  4: {
    InvalidEnvironmentVariables:
      "update the container runtime: it passed a CNI variable that CNI does not allow",
  },
  5: {
    IoFailure: "check the kernel's log and the disk of this node",
    StateUnwritable:
      "free space and inodes on the node's disk, and check that /var/lib/plexus is writable",
  },
  6: {
    DecodingFailure: "correct the document that the message names",
    PluginOutput: "report it to the plugin's maintainers: a plugin must print a CNI result",
  },
  7: {
    InvalidNetworkConfig: "correct the network configuration that the message names",
    InvalidDefinition: "correct the definition's spec.config",
    ClusterRangesUnknown:
      "add the ranges of the cluster's pods to clusterRoutes in plexusd's configuration, or to the pod's annotation plexus.dev/cluster-routes, or set that to none",
    MetaPlugin:
      "replace the meta-plugin in the definition by the network's own plugin: Plexus calls it directly",
    MissingConfiguration:
      "put the configuration into the definition's spec.config, or a file with that network name into confDir on this node",
    MissingDefaultNetwork:
      "restore the file or create the network that the message names, or correct clusterNetwork and defaultNetworks in plexusd's configuration; kubectl plexus doctor says when plexusd takes another file of the primary CNI",
    NotFirstPlugin: "make the other plugin part of the cluster default network",
  },
  8: {
    InvalidNetns: "do nothing: the container runtime makes a new sandbox",
  },
  11: {
    TryAgainLater: "wait",
    ApiUnavailable:
      "check what the message names: the connection to the API server, the permissions of plexusd's service account, or the API server's load",
    DaemonUnavailable: "check plexusd's pod on this node; the kubelet retries until plexusd runs",
    DevicesUnknown:
      "check that the kubelet runs and that plexusd's pod mounts its pod-resources directory",
    AgentUnavailable:
      "install `plexus agent --attach` on this node: docs/user/hot-plug.md says how",
    StatusNotWritten:
      "check what the message names: the connection to the API server, or what refuses the write of pods/status; the kubelet retries",
    PodReplaced: "do nothing: the kubelet removes this sandbox",
    PrimaryNotReady: "check the primary CNI's pod on this node",
    NextPluginMissing:
      "start the agent that installs the plugin, or remove the plugin from 00-plexus.conflist, as docs/operations/service-meshes.md says",
    RepeatedFailures:
      "fix the cause in parentheses; the pod starts after one of its earlier sandboxes is detached",
  },
  50: {
    PluginNotAvailable: "fix what the message names; the node then becomes ready",
  },
  100: {
    InvalidRequest: "correct the annotation or the definition that the message names",
    InvalidAnnotation:
      "correct the annotation, and create the pod again if it runs without hot-plug",
    UnknownKey:
      "correct or remove the key in the annotation, which Plexus ignores, and create the pod again if it runs without hot-plug",
    NoNetworkFound: "create the definition, or correct name and namespace in the annotation",
    UndeclaredRequest:
      'declare the capability in the definition ("capabilities": {…: true}) on a plugin that supports it, remove the key from the annotation, or set strictness: multus in plexusd\'s configuration, as Multus behaves',
    IgnoredRequest:
      "use a plugin that supports the key, remove it from the annotation, or set strictness: multus in plexusd's configuration, as Multus behaves",
    DeviceNotAllocated:
      "request the resource in the limits of a container, once per network that needs it, and create the pod again; a deviceID in the annotation must be one that the message lists; add a resource without devices to markerResources in plexusd's configuration",
    UnusableDevice: "correct the pod's resource claims, or the driver that the message names",
    RepeatedNetwork: "use a second definition whose configuration has another name",
    InterfaceNameTaken:
      "give each network in the annotation an interface name that nothing else in the pod has",
    DefaultInterfaceName: "remove the interface name from the default-network annotation",
    OverLimit: "make it smaller: docs/user/configuration.md lists the limits, which are fixed",
    UnreachableGateway:
      "set a gateway in the default-route of the annotation that is in the interface's network",
    DefaultRouteTaken:
      "keep one default-route in the annotation, and remove routes that something else has set in the pod",
  },
  101: {
    NetworkAccessDenied:
      "move the definition into the pod's namespace or into one of globalNamespaces, or let its owner permit the pod's namespace by plexus.dev/allowed-namespaces",
    DefinitionNotAllowed:
      "change the definition as the message says, or attachmentPolicy in plexusd's configuration",
  },
  102: {
    TeardownIncomplete: "fix what the message names; the container runtime retries",
  },
  103: {
    AlreadyAttached: "wait: the container runtime must call DEL before another ADD",
  },
  999: {
    Internal: "read plexusd's log, which has the cause",
    MasterMissing:
      "set the definition's master or device to an interface that this node has, or give one that name as an alternative name; kubectl plexus networks shows which nodes have it",
    PluginMissing: "install the plugin on this node, or correct its type in the definition",
    PluginRefused:
      "make the plugin a file that only root can write, in the container runtime's plugin directory or one of /etc/plexus/plugin-dirs",
    PluginNotExecutable:
      "correct what the message names: install the interpreter or loader on this node, or a static build of the plugin for its architecture, or allow its execution",
    PluginTimeout:
      "check what the plugin waits for (its daemon, a DHCP server, a lock); delegateTimeoutMs limits its time",
    PluginCrashed: "check the kernel's log for a crash of the plugin or a lack of memory",
  },
} as const satisfies Readonly<Record<number, Readonly<Record<string, string>>>>;

/** How bad a finding is, the worst first; what waits ends by itself. */
export const verdicts = ["problem", "wait", "warning", "ok"] as const;
export type Verdict = (typeof verdicts)[number];

/**
 * The verdicts of what is found of nodes and pods: nothing else has one. Of Plexus's own errors, codes
 * 100 and 101 and those here are mistakes that only the owner of a pod or of its networks can correct.
 * It is a problem where pods run without what they ask for, or where they will not start, or not any
 * more after the next restart.
 */
const findings = {
  ok: [
    ...["AddedInterface", "AgentReady", "Attached", "AttachedByOther", "ChainedPlugins"],
    ...["ConfigInEffect", "DirectoryUsable", "HostNetwork", "ListNotCollected", "NetworkAvailable"],
    ...["NetworkUnavailable", "NoFailedAdds"],
    ...["NoLeftovers", "NodeHandedBack", "NothingRequested", "PlexusConfActive", "PodEnded"],
    ...["PodsAttached", "PrimaryNetworkChanged", "Ready", "RemovedInterface", "ShimReady"],
    ...["SourceReady", "TokenValid"],
  ],
  wait: [
    ...["AddInterrupted", "BeingAttached", "HotPlugPending", "NotAttachedYet", "NotScheduled"],
    ...["StatusPending"],
  ],
  warning: [
    ...["AddressOutsideRange", "AddressTaken", "AgentRefusesPlugins", "AnnotationChanged"],
    ...[
      "AttachmentForgotten",
      "DeviceInUse",
      "LeftoverAttachment",
      "PortUnavailable",
      "StatusLate",
    ],
    ...[
      "ClusterShadowed",
      "ConfNotWritten",
      "ConfigNotInEffect",
      "CrdMissing",
      "DefinitionChanged",
      "DirectoryWritable",
      "FormerKey",
    ],
    ...[
      "FailedRemovingInterface",
      "InvalidDefinition",
      "LeftByMultus",
      "Leftovers",
      "ListCollected",
      "MetaPlugin",
    ],
    ...["PluginsLeftOut", "RecordSetAside", "ShimOutdated", "TokenNotRenewed"],
  ],
  problem: [
    ...["AnnotationIgnored", "AttachFailed", "DefinitionsLost", "DirectoryUnusable"],
    ...["FailedAddingInterface"],
    ...["InterfaceAddRejected", "InterfaceLost", "InvalidConfiguration", "IpamExhausted"],
    ...["KernelSupport", "NodeNotHandedBack", "NotAttached", "NotManaged"],
    ...["NotReady", "OtherNode"],
    ...["PathNotMounted", "PlexusConfForeignRename"],
    ...["PlexusConfMissing", "PlexusConfShadowed", "PlexusConfWaiting", "PluginDaemonUnavailable"],
    ...["PluginDenied", "PluginDirRefused", "PluginFailed", "PodNotFound", "PrimaryConfMissing"],
    ...["RecordDamaged", "SandboxesGivenUp", "ShimMissing", "StatusRejected", "TokenExpired"],
    ...["ValueOutOfRange"],
  ],
} as const satisfies Readonly<Record<Verdict, readonly string[]>>;

/** Why something is as `explain`, `doctor` or an event says: stable, for scripts. */
export type FindingReason = Reason | (typeof findings)[Verdict][number];

/** The type of a reason's events. */
export function eventTypeOf(reason: FindingReason): "Normal" | "Warning" {
  return verdictOf(reason) === "ok" ? "Normal" : "Warning";
}

/** The verdict of a reason. */
export function verdictOf(reason: FindingReason): Verdict {
  const listed = verdicts.find((each) => (findings[each] as readonly string[]).includes(reason));
  if (listed !== undefined) return listed;
  const { code } = reasonRow(reason as Reason);
  return [100, 101].includes(code) ? "warning" : "problem";
}

type KeyOf<T> = T extends unknown ? keyof T : never;

/** Why one of Plexus's own errors happened. */
export type Reason = KeyOf<(typeof table)[keyof typeof table]>;

interface ReasonRow {
  readonly code: number;
  /** What to do. */
  readonly step: string;
}

/** Each reason's row, in the order of the table. Most calls of plexus-standalone need none. */
export function reasonRows(): [Reason, ReasonRow][] {
  return Object.entries(table).flatMap(([code, rows]) =>
    Object.entries<string>(rows).map(([reason, step]): [Reason, ReasonRow] => [
      reason as Reason,
      { code: Number(code), step },
    ]),
  );
}

export function reasonRow(reason: Reason): ReasonRow {
  return new Map(reasonRows()).get(reason) as ReasonRow;
}
