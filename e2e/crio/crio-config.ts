import { join } from "node:path";
import { pauseImage } from "../cluster/machine/images.ts";
import type { CrioTools } from "./tools.ts";

/** Where CRI-O listens, on the node. */
export const crioSocket = "/run/crio/crio.sock";

/** CRI-O's image store, on the node. What lies in /run is gone after a reboot. */
export const storage = {
  graphRoot: "/var/lib/containers/storage",
  runRoot: "/run/containers/storage",
} as const;

/** Without this file, containers/storage reads the machine's. */
export const storageConfig = `[storage]
driver = "vfs"
graphroot = "${storage.graphRoot}"
runroot = "${storage.runRoot}"
`;

/** Pods of the documentation name images as everyone does: `busybox:1.37`. */
export const registriesConfig = `unqualified-search-registries = ["docker.io"]
`;

/**
 * Where a machine gives root no CAP_SYS_RESOURCE, no process may lower its OOM score, as the kubelet asks
 * for critical pods, and no container can have this capability, which CRI-O gives to privileged ones. A machine
 * need not have control groups for huge pages, which CRI-O limits. containerd has settings for all of it.
 */
export function lenientRunc({ runc }: CrioTools): string {
  return `#!/bin/sh
bundle= previous=
for argument; do
  [ "$previous" != --bundle ] || bundle=$argument
  previous=$argument
done
if [ -n "$bundle" ]; then
  sed -i -z -e 's/"oomScoreAdj": -[0-9]*/"oomScoreAdj": 0/' -e 's/"hugepageLimits": \\[[^]]*]/"hugepageLimits": []/' \\
    -e 's/"CAP_SYS_RESOURCE",//g' "$bundle/config.json"
fi
exec ${runc} "$@"
`;
}

/** CRI-O asks conmon for its version without `conmon_env`. */
export function unpackedConmon({ conmon, libraries }: CrioTools): string {
  return `#!/bin/sh
LD_LIBRARY_PATH=${libraries} exec ${conmon} "$@"
`;
}

/**
 * A configuration that needs nothing of the machine: no SELinux, no AppArmor, no systemd, no hooks.
 * `runc` and `conmon` are the executables to run containers with.
 */
export function crioConfig(
  tools: CrioTools,
  { runc, conmon }: Readonly<Record<"runc" | "conmon", string>>,
): string {
  return `[crio]
root = "${storage.graphRoot}"
runroot = "${storage.runRoot}"
storage_driver = "vfs"
log_dir = "/var/log/pods"
version_file = "/run/crio/version"
version_file_persist = "/var/lib/containers/crio-version"
clean_shutdown_file = "/var/lib/containers/crio-clean-shutdown"

[crio.api]
listen = "${crioSocket}"
stream_port = "0"

[crio.runtime]
cgroup_manager = "cgroupfs"
conmon = "${conmon}"
conmon_cgroup = "pod"
conmon_env = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
selinux = false
apparmor_profile = "unconfined"
drop_infra_ctr = true
hooks_dir = []
# CRI-O gives no NET_RAW of itself; the pods of tests ping.
default_capabilities = ["CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "SETGID", "SETUID", "SETPCAP", "NET_BIND_SERVICE", "KILL", "NET_RAW"]
irqbalance_config_restore_file = "disable"
namespaces_dir = "/run"
container_exits_dir = "/run/crio/exits"
container_attach_socket_dir = "/run/crio/attach"
pinns_path = "${join(tools.crio, "pinns")}"
default_runtime = "runc"

[crio.runtime.runtimes.runc]
runtime_path = "${runc}"
runtime_root = "/run/runc"
monitor_path = "${conmon}"
monitor_cgroup = "pod"
monitor_env = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]

[crio.image]
pause_image = "${pauseImage}"
pause_command = "/pause"

[crio.network]
network_dir = "/etc/cni/net.d/"
plugin_dirs = ["/opt/cni/bin/"]

[crio.nri]
enable_nri = false
`;
}
