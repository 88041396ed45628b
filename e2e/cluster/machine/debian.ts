// SPDX-License-Identifier: Apache-2.0

import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cachedDirectory } from "./cache.ts";
import { type Command, run } from "./run.ts";

/** Packages of Debian that are unpacked below one directory and never installed. */
interface DebianPackages {
  /** Names the directory in the cache. */
  readonly name: string;
  /** Packages of Debian unstable. */
  readonly fromUnstable: readonly string[];
  /** Packages of the machine's own release. */
  readonly fromRelease: readonly string[];
  /** Proof that the unpacked programs run on this machine's C library; paths below the directory. */
  readonly trials: readonly Command[];
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

/** What CRI-O needs besides. */
const crioPackages: DebianPackages = {
  name: "debian-crio",
  fromUnstable: [],
  fromRelease: ["conmon", "libglib2.0-0"],
  trials: [],
};

/** Returns the root of the Debian packages that CRI-O needs besides runc. */
export function crioDebianRoot(): Promise<string> {
  return unpackedPackages(crioPackages);
}

/** Returns the root that the test cluster's Debian packages are unpacked below. */
export function debianRoot(): Promise<string> {
  return unpackedPackages(clusterPackages);
}

/** Returns the root that the packages are unpacked below; none is installed on the machine. */
export function unpackedPackages(packages: DebianPackages): Promise<string> {
  const { name, fromUnstable, fromRelease } = packages;
  return cachedDirectory(name, [...fromUnstable, "release:", ...fromRelease], (root) =>
    unpackAll(root, packages),
  );
}

async function unpackAll(root: string, packages: DebianPackages): Promise<void> {
  const apt = join(root, "apt");
  const release = await releaseName();
  const suites = packages.fromUnstable.length === 0 ? [release] : ["sid", release];
  const env = { APT_CONFIG: await writeAptConfig(apt, suites) };
  await run(["apt-get", "update"], { env });
  const wanted = [
    ...packages.fromUnstable.map((name) => `${name}/sid`),
    ...packages.fromRelease.map((name) => `${name}/${release}`),
  ];
  await run(["apt-get", "download", ...wanted], { env, cwd: apt });
  for (const name of await readdir(apt)) {
    if (name.endsWith(".deb")) {
      await run(["dpkg-deb", "--extract", join(apt, name), root]);
    }
  }
  for (const [file, ...args] of packages.trials) {
    await run([join(root, file), ...args]);
  }
  await rm(apt, { recursive: true });
}

/** Writes an apt configuration with sources and lists of its own, so that the machine's stay as they are. */
async function writeAptConfig(directory: string, suites: readonly string[]): Promise<string> {
  await mkdir(join(directory, "lists", "partial"), { recursive: true });
  await mkdir(join(directory, "cache", "archives", "partial"), { recursive: true });
  const sources = join(directory, "debian.sources");
  await writeFile(
    sources,
    [
      "Types: deb",
      `URIs: ${await mirror()}`,
      `Suites: ${suites.join(" ")}`,
      "Components: main",
      "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg",
      "",
    ].join("\n"),
  );
  const config = join(directory, "apt.conf");
  const settings = {
    "Dir::Etc::sourcelist": sources,
    "Dir::Etc::sourceparts": "-",
    "Dir::State::lists": join(directory, "lists"),
    "Dir::Cache": join(directory, "cache"),
    "Acquire::Languages": "none",
    "Acquire::Retries": "3",
    // Everything here is below a directory that only root may enter.
    "APT::Sandbox::User": "root",
  };
  const lines = Object.entries(settings).map(([key, value]) => `${key} "${value}";\n`);
  await writeFile(config, lines.join(""));
  return config;
}

/** The mirror that this machine's own apt takes its release from. */
async function mirror(): Promise<string> {
  const format = "$(CODENAME) $(REPO_URI)";
  const listed = await run(["apt-get", "indextargets", "--format", format, "Created-By: Packages"]);
  const release = await releaseName();
  const line = listed.split("\n").find((entry) => entry.startsWith(`${release} `));
  if (line === undefined) {
    throw new Error(`cannot find the mirror of Debian ${release} among apt's sources`);
  }
  return line.slice(release.length + 1);
}

async function releaseName(): Promise<string> {
  const text = await readFile("/etc/os-release", "utf8");
  const name = /^VERSION_CODENAME=(\w+)$/m.exec(text)?.[1];
  if (name === undefined) {
    throw new Error("cannot find VERSION_CODENAME in /etc/os-release: not a Debian release");
  }
  return name;
}
