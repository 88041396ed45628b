import { lstatSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  archivesOf,
  downloadWithDependencies,
  kernelPackages,
  releaseName,
  writeAptConfig,
} from "./apt.ts";
import { cachedDirectory } from "./cache.ts";
import { type Command, run } from "./run.ts";

/** Packages of Debian that are unpacked below one directory and never installed. A list is empty unless given. */
export interface DebianPackages {
  /** Names the directory in the cache. */
  readonly name: string;
  /** For a machine of another architecture, which has no packages yet. @default this machine's */
  readonly architecture?: string;
  /** Packages of Debian unstable. */
  readonly fromUnstable?: readonly string[];
  /** Packages of {@link release}. */
  readonly fromRelease?: readonly string[];
  /** A code name. @default the machine's own release */
  readonly release?: string;
  /**
   * Packages of the release's backports, or of the release where they have none, with all that they depend on and
   * the machine lacks.
   */
  readonly fromBackports?: readonly string[];
  /** Metapackages of kernels in the release's backports: of each the packages of a version that it names, without the rest. */
  readonly kernelsFromBackports?: readonly string[];
  /** Proof that the unpacked programs run on this machine's C library; paths below the directory. */
  readonly trials?: readonly Command[];
}

/**
 * Debian's stable releases have containerd, etcd and the CNI plugins too old; unstable's builds of them ask for
 * no newer C library than Debian 12's. Its runc does, so runc comes from the machine's own release.
 */
const clusterPackages: DebianPackages = {
  name: "debian",
  fromUnstable: ["containerd", "containernetworking-plugins", "etcd-server", "busybox-static"],
  fromRelease: ["runc"],
  trials: [
    ["usr/bin/containerd", "--version"],
    ["usr/bin/ctr", "--version"],
    ["usr/bin/containerd-shim-runc-v2", "-v"],
    ["usr/sbin/runc", "--version"],
    ["usr/bin/etcd", "--version"],
    ["usr/bin/busybox", "true"],
  ],
};

/** Returns the root that the test cluster's Debian packages are unpacked below. */
export function debianRoot(): Promise<string> {
  return unpackedPackages(clusterPackages);
}

/** Returns the root that the packages are unpacked below; none is installed on the machine. */
export async function unpackedPackages(packages: DebianPackages): Promise<string> {
  const { fromUnstable = [], fromRelease = [], fromBackports = [] } = packages;
  const { name, kernelsFromBackports = [], release = await releaseName() } = packages;
  const backports = [...fromBackports, ...kernelsFromBackports];
  const inputs = [...fromUnstable, "release:", release, ...fromRelease, ...backports];
  return cachedDirectory(name, inputs, (root) => unpackAll(root, packages));
}

async function unpackAll(root: string, packages: DebianPackages): Promise<void> {
  const apt = join(root, "apt");
  const { release = await releaseName() } = packages;
  const { fromUnstable = [], fromRelease = [], trials = [] } = packages;
  const { fromBackports = [], kernelsFromBackports = [] } = packages;
  const suites = [
    ...(fromUnstable.length === 0 ? [] : ["sid"]),
    ...(fromBackports.length + kernelsFromBackports.length === 0 ? [] : [`${release}-backports`]),
    release,
  ];
  const env = await writeAptConfig(apt, suites, packages.architecture);
  await run(["apt-get", "update"], { env });
  const wanted = [
    ...fromUnstable.map((name) => `${name}/sid`),
    ...fromRelease.map((name) => `${name}/${release}`),
    ...(await Promise.all(kernelsFromBackports.map((name) => kernelPackages(name, env)))).flat(),
  ];
  if (wanted.length > 0) await run(["apt-get", "download", ...wanted], { env, cwd: apt });
  if (fromBackports.length > 0) await downloadWithDependencies(fromBackports, env);
  for (const directory of [apt, archivesOf(apt)]) {
    for (const name of await readdir(directory)) {
      if (name.endsWith(".deb")) {
        await run(["dpkg-deb", "--extract", join(directory, name), root]);
      }
    }
  }
  if (packages.architecture !== undefined) await mergeIntoUsr(root);
  for (const [file, ...args] of trials) {
    await run([join(root, file), ...args]);
  }
  await rm(apt, { recursive: true });
}

/**
 * Older releases have files in /bin, /sbin and /lib, which are links to directories of /usr on every machine. Newer ones
 * have a package with the links.
 */
async function mergeIntoUsr(root: string): Promise<void> {
  const isDirectory = (name: string): boolean =>
    lstatSync(join(root, name), { throwIfNoEntry: false })?.isDirectory() === true;
  for (const name of ["bin", "sbin", "lib"].filter(isDirectory)) {
    await run(["cp", "-a", `${name}/.`, `usr/${name}`], { cwd: root });
    await rm(join(root, name), { recursive: true });
  }
}
