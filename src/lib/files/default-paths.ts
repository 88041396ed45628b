/**
 * The default paths on a node. The shim has the first, the third and the path of plexus-standalone
 * in shim/protocol.h; the manifests in deploy/ mount the same directories. Tests compare all three.
 */
export const defaultPaths = {
  socket: "/run/plexus/plexus.sock",
  dockerCallSocket: "/run/plexus/docker.sock",
  /** Attachment records, teardown plans and locks. */
  stateDir: "/var/lib/plexus",
  /** plexusd's configuration file, which plexus-standalone reads too. */
  configFile: "/etc/plexus/config.yaml",
  /** Pods and definitions for plexus-standalone, on a machine without Kubernetes. */
  manifestsDir: "/etc/plexus/manifests",
  /** Lists additional plugin directories for the shim; plexusd never reads it. */
  pluginDirsFile: "/etc/plexus/plugin-dirs",
  /** Network configurations that definitions refer to by CNI name. */
  confDir: "/etc/cni/plexus/net.d",
  /** The container runtime's network configurations. */
  cniConfDir: "/etc/cni/net.d",
  cniBinDir: "/opt/cni/bin",
  /** State of CNI plugins and Multus; only read. */
  cniStateDir: "/var/lib/cni",
  kubeletDir: "/var/lib/kubelet",
  /** Executables and bundles in the container image. */
  imageDir: "/plexus",
} as const;

export const executableNames = {
  /** The shim, which the container runtime executes. */
  shim: "plexus",
  /** The engine for calls without plexusd. */
  standalone: "plexus-standalone",
} as const;

/** The configuration that makes the container runtime call Plexus; it sorts first. */
export const plexusConfName = "00-plexus.conflist";
