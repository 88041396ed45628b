import type { Reason } from "#cni/error.ts";

/** What to do about a reason; docs/operations/troubleshooting.md has the same table. */
export const reasonSteps: Readonly<Record<Reason, string>> = {
  IncompatibleCniVersion:
    "set a cniVersion that the plugin supports in the definition, not only inside of its plugins, or update the plugin",
  UnknownContainer:
    "update the container runtime: it passed a container ID that CNI does not allow",
  InvalidEnvironmentVariables:
    "update the container runtime: it passed a CNI variable that CNI does not allow",
  IoFailure: "check the kernel's log and the disk of this node",
  StateUnwritable:
    "free space and inodes on the node's disk, and check that /var/lib/plexus is writable",
  DecodingFailure: "correct the document that the message names",
  PluginOutput: "report it to the plugin's maintainers: a plugin must print a CNI result",
  InvalidNetworkConfig: "correct the network configuration that the message names",
  InvalidDefinition: "correct the definition's spec.config",
  MetaPlugin:
    "replace the meta-plugin in the definition by the network's own plugin: Plexus calls it directly",
  MissingConfiguration:
    "put the configuration into the definition's spec.config, or a file with that network name into confDir on this node",
  MissingDefaultNetwork:
    "restore the file or create the network that the message names, or correct clusterNetwork and defaultNetworks in plexusd's configuration; kubectl plexus doctor says when plexusd takes another file of the primary CNI",
  NotFirstPlugin: "make the other plugin part of the cluster default network",
  InvalidNetns: "do nothing: the container runtime makes a new sandbox",
  TryAgainLater: "wait: the container runtime retries",
  ApiUnavailable:
    "check that this node reaches the API server, and the permissions of plexusd's service account; the kubelet retries",
  DaemonUnavailable: "check plexusd's pod on this node; the kubelet retries until plexusd runs",
  DevicesUnknown:
    "check that the kubelet runs and that plexusd's pod mounts its pod-resources directory; the kubelet retries",
  AgentUnavailable: "install `plexus agent --attach` on this node: docs/user/hot-plug.md says how",
  PodReplaced: "do nothing: the kubelet removes this sandbox",
  PrimaryNotReady: "check the primary CNI's pod on this node",
  RepeatedFailures:
    "fix the cause in parentheses; the pod starts after one of its earlier sandboxes is detached",
  PluginNotAvailable: "fix what the message names; the node then becomes ready",
  InvalidRequest: "correct the annotation or the definition that the message names",
  InvalidAnnotation: "correct the annotation and create the pod again",
  UnknownKey:
    "correct or remove the key in the annotation, and create the pod again; Plexus ignores it, as Multus does",
  NoNetworkFound:
    "create the definition, or correct name and namespace in the annotation; the kubelet retries",
  UndeclaredRequest:
    'declare the capability in the definition ("capabilities": {…: true}) on a plugin that supports it, remove the key from the annotation, or set in plexusd\'s configuration undeclaredRequests: cniArgs (mac and ips) or ignoredRequests: warn (the others), as Multus behaves',
  IgnoredRequest:
    "use a plugin that supports the key, remove it from the annotation, or set ignoredRequests: warn in plexusd's configuration, as Multus behaves",
  DeviceNotAllocated:
    "request the resource in the limits of a container, once per network that needs it, and create the pod again; a deviceID in the annotation must be one that plexusctl devices shows for the pod; add a resource without devices to markerResources in plexusd's configuration",
  UnusableDevice: "correct the pod's resource claims, or the driver that the message names",
  RepeatedNetwork: "use a second definition whose configuration has another name",
  InterfaceNameTaken:
    "give each network in the annotation a different interface name, none of them eth0 or lo",
  DefaultInterfaceName: "remove the interface name from the default-network annotation",
  OverLimit: "make it smaller: docs/user/configuration.md lists the limits, which are fixed",
  UnreachableGateway:
    "set a gateway in the default-route of the annotation that is in the interface's network",
  DefaultRouteTaken:
    "keep one default-route in the annotation, and remove routes that something else has set in the pod",
  NetworkAccessDenied:
    "move the definition into the pod's namespace or into one of globalNamespaces",
  TeardownIncomplete: "fix what the message names; the container runtime retries",
  AlreadyAttached: "wait: the container runtime must call DEL before another ADD",
  Internal: "read plexusd's log, which has the cause",
  PluginMissing: "install the plugin on this node, or correct its type in the definition",
  PluginRefused:
    "make the plugin a file that only root can write, in the container runtime's plugin directory or one of /etc/plexus/plugin-dirs",
  PluginTimeout:
    "check what the plugin waits for (its daemon, a DHCP server, a lock); delegateTimeoutMs limits its time",
  PluginCrashed: "check the kernel's log for a crash of the plugin or a lack of memory",
};

/** What differs for a running pod with `hotPlug: on`; the same page has them, too. */
export const hotPlugSteps: Readonly<Partial<Record<Reason, string>>> = {
  TryAgainLater: "wait",
  ApiUnavailable:
    "check that this node reaches the API server, and the permissions of plexusd's service account",
  DevicesUnknown:
    "check that the kubelet runs and that plexusd's pod mounts its pod-resources directory",
  InvalidAnnotation: "correct the annotation",
  UnknownKey: "correct or remove the key in the annotation; Plexus ignores it, as Multus does",
  NoNetworkFound: "create the definition, or correct name and namespace in the annotation",
};
