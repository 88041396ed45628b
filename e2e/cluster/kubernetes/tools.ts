import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { cachedDirectory } from "../machine/cache.ts";
import { debianRoot } from "../machine/debian.ts";
import { run, tryRun } from "../machine/run.ts";
import { containerdDirectory } from "./build/containerd.ts";
import { kubernetesDirectory, kubernetesVersion } from "./build/kubernetes.ts";

/** Where the programs lie that a cluster is made of. */
export interface Tools {
  /** kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl. */
  readonly kubernetes: string;
  /** The 36 of Kubernetes 1.36. */
  readonly kubernetesMinor: number;
  /** containerd, its shim for runc, ctr. */
  readonly containerd: string;
  /** The root of the unpacked Debian packages: containerd, runc, etcd, CNI plugins, busybox. */
  readonly debian: string;
  /** The reference CNI plugins. */
  readonly cniPlugins: string;
  readonly etcd: string;
  readonly busybox: string;
  /** A static init: see machine/init.c. */
  readonly init: string;
}

/** Commands that have to be on the machine, with the Debian package of each. */
const prerequisites = {
  "apt-get": "apt",
  cc: "gcc libc6-dev",
  "dpkg-deb": "dpkg",
  flock: "util-linux",
  go: "golang",
  hostname: "hostname",
  ip: "iproute2",
  nft: "nftables",
  nsenter: "util-linux",
  openssl: "openssl",
  setpriv: "util-linux",
  tar: "tar",
  unshare: "util-linux",
};

/** Finds all programs, and builds or downloads what is not in the cache yet. */
export async function prepareTools(): Promise<Tools> {
  await requirePrerequisites();
  const [debian, kubernetes, containerd] = await Promise.all([
    debianRoot(),
    kubernetesDirectory(),
    containerdDirectory(),
  ]);
  return {
    kubernetes,
    kubernetesMinor: Number(kubernetesVersion().split(".")[1]),
    containerd,
    debian,
    cniPlugins: join(debian, "usr/lib/cni"),
    etcd: join(debian, "usr/bin/etcd"),
    busybox: join(debian, "usr/bin/busybox"),
    init: await initProgram(),
  };
}

async function requirePrerequisites(): Promise<void> {
  const missing: string[] = [];
  for (const [command, debianPackage] of Object.entries(prerequisites)) {
    if ((await tryRun(["sh", "-c", `command -v ${command}`])).exitCode !== 0) {
      missing.push(`${command} (Debian: ${debianPackage})`);
    }
  }
  if (process.getuid?.() !== 0) {
    missing.push("the rights of root");
  }
  if (missing.length > 0) {
    throw new Error(`cannot run a cluster on this machine: missing ${missing.join(", ")}`);
  }
}

/** The PATH of a node's daemons: containerd looks for its shims in it, and CNI plugins for nft. */
export function programPath({ containerd, debian, kubernetes }: Tools): string {
  const own = [kubernetes, containerd, join(debian, "usr/bin"), join(debian, "usr/sbin")];
  return [...own, process.env.PATH].join(":");
}

/** Builds the static init of hosts and pauses, unless it is in the cache: see machine/init.c. */
export async function initProgram(): Promise<string> {
  const source = join(import.meta.dirname, "../machine/init.c");
  const build = async (directory: string): Promise<void> => {
    const flags = ["-static", "-Os", "-s", "-Wall", "-Wextra", "-Werror"];
    await run(["cc", ...flags, "-o", join(directory, "init"), source]);
  };
  return join(await cachedDirectory("init", [await readFile(source)], build), "init");
}
