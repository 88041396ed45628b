/**
 * Where everything is on a node unless flags or the configuration say otherwise. The shim has the
 * first two and the path of plexus-standalone in shim/protocol.h; the manifests in deploy/ mount
 * the same directories. Tests compare all three.
 */
export const defaultPaths = {
  /** plexusd's socket, which the shim connects to. */
  socket: "/run/plexus/plexus.sock",
  /** The call socket of `plexusctl docker`. */
  dockerCallSocket: "/run/plexus/docker.sock",
  /** Attachment records, teardown plans and locks. */
  stateDir: "/var/lib/plexus",
  /** plexusd's configuration file, which plexus-standalone reads too. */
  configFile: "/etc/plexus/config.yaml",
  /** The plugin directories, besides the container runtime's, that the shim executes plugins from; never seen by plexusd. */
  pluginDirsFile: "/etc/plexus/plugin-dirs",
  /** Network configurations that are looked up by their CNI name. */
  confDir: "/etc/cni/plexus/net.d",
  /** The container runtime's network configurations. */
  cniConfDir: "/etc/cni/net.d",
  /** The container runtime's plugins. */
  cniBinDir: "/opt/cni/bin",
  /** What CNI plugins keep, Multus among them; only read. */
  cniStateDir: "/var/lib/cni",
  /** Where the kubelet has its sockets and checkpoints. */
  kubeletDir: "/var/lib/kubelet",
  /** Executables and bundles in the container image. */
  imageDir: "/plexus",
} as const;

/** The executables in the container runtime's plugin directory. */
export const executableNames = {
  /** The shim, which the container runtime executes. */
  shim: "plexus",
  /** The engine for calls that no daemon answers. */
  standalone: "plexus-standalone",
} as const;

/** The file that makes the container runtime call Plexus; it sorts before every usual name. */
export const plexusConfName = "00-plexus.conflist";
