// SPDX-License-Identifier: Apache-2.0

import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cachedDirectory } from "./cache.ts";
import { type Command, run } from "./run.ts";

/** Debian packages that are unpacked below one root; none of them is installed on the machine. */
interface PackageSet {
  /** Names the root in the cache. */
  readonly name: string;
  readonly fromUnstable: readonly string[];
  /** From the machine's own release. */
  readonly fromRelease: readonly string[];
  /** Proof that the unpacked programs run on this machine's C library. */
  readonly trials: readonly Command[];
}

/**
 * Debian's stable releases have containerd, etcd and the CNI plugins too old; unstable's builds of them ask for
 * no newer C library than Debian 12's. Its runc does, so runc comes from the machine's own release.
 */
const clusterPackages: PackageSet = {
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
const crioPackages: PackageSet = {
  name: "debian-crio",
  fromUnstable: [],
  fromRelease: ["conmon", "libglib2.0-0"],
  trials: [],
};

/** Returns the root of the Debian packages of a cluster. */
export async function debianRoot(): Promise<string> {
  return unpacked(clusterPackages);
}

/** Returns the root of the Debian packages that CRI-O needs besides runc. */
export async function crioDebianRoot(): Promise<string> {
  return unpacked(crioPackages);
}

async function unpacked(set: PackageSet): Promise<string> {
  const inputs = [...set.fromUnstable, "release:", ...set.fromRelease];
  return cachedDirectory(set.name, inputs, (root) => unpackAll(set, root));
}

async function unpackAll(set: PackageSet, root: string): Promise<void> {
  const apt = join(root, "apt");
  const release = await releaseName();
  const env = { APT_CONFIG: await writeAptConfig(apt, ["sid", release]) };
  await run(["apt-get", "update"], { env });
  const wanted = [
    ...set.fromUnstable.map((name) => `${name}/sid`),
    ...set.fromRelease.map((name) => `${name}/${release}`),
  ];
  await run(["apt-get", "download", ...wanted], { env, cwd: apt });
  for (const name of await readdir(apt)) {
    if (name.endsWith(".deb")) {
      await run(["dpkg-deb", "--extract", join(apt, name), root]);
    }
  }
  for (const [file, ...args] of set.trials) {
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
