// SPDX-License-Identifier: Apache-2.0

import { readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { cachedDirectory } from "../machine/cache.ts";
import { debianRoot } from "../machine/debian.ts";
import { run, tryRun } from "../machine/run.ts";

/** Where the programs lie that a cluster is made of. */
export interface Tools {
  /** kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl, cnitool. */
  readonly kubernetes: string;
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

const kubernetesPrograms = [
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kubelet",
  "kubectl",
];

/** Finds all programs, and builds or downloads those that are not in the cache yet. */
export async function prepareTools(): Promise<Tools> {
  await requirePrerequisites();
  const [debian, kubernetes] = await Promise.all([debianRoot(), kubernetesDirectory()]);
  return {
    kubernetes,
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

/** The directory of Kubernetes' own programs, kubectl among them; the first time they are built, in ten minutes. */
export async function kubernetesDirectory(): Promise<string> {
  const source = join(import.meta.dirname, "build");
  const files = ["go.mod", "go.sum", "main.go"].map((name) => readFile(join(source, name)));
  const inputs = [await run(["go", "version"]), ...(await Promise.all(files))];
  return cachedDirectory("kubernetes", inputs, (directory) => buildKubernetes(source, directory));
}

async function buildKubernetes(source: string, directory: string): Promise<void> {
  process.stderr.write("building Kubernetes from source, once: this takes about ten minutes\n");
  const module = "k8s.io/kubernetes";
  const list = ["go", "list", "-m", "-f", "{{.Version}}", module] as const;
  const version = (await run(list, { cwd: source })).trim();
  const [major, minor] = version.replace("v", "").split(".");
  const stamps = { gitVersion: version, gitMajor: major, gitMinor: minor, gitTreeState: "clean" };
  const flags = Object.entries(stamps).map(
    ([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`,
  );
  const mains = [".", "github.com/containernetworking/cni/cnitool"];
  const build = ["go", "build", "-trimpath", "-ldflags", `-s -w ${flags.join(" ")}`] as const;
  await run([...build, "-o", `${directory}/`, ...mains], {
    cwd: source,
    env: { CGO_ENABLED: "0", GOFLAGS: "-buildvcs=false" },
  });
  for (const program of kubernetesPrograms) {
    await symlink("kube", join(directory, program));
  }
  await run([join(directory, "kubectl"), "version", "--client"]);
}

/** The PATH of a node's daemons: containerd looks for its shims in it, and CNI plugins for nft. */
export function programPath({ debian, kubernetes }: Tools): string {
  const own = [kubernetes, join(debian, "usr/bin"), join(debian, "usr/sbin")];
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
