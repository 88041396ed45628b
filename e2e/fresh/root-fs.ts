import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { mirror } from "../cluster/machine/apt.ts";
import { cachedDirectory } from "../cluster/machine/cache.ts";
import { run } from "../cluster/machine/run.ts";
import { aptSettings } from "./settings.ts";

/** The releases of Debian on which the commands of the README have to work, by code name. */
export const releases = { bookworm: "Debian 12", trixie: "Debian 13" } as const;

/** The code name of one of these releases. */
export type Release = keyof typeof releases;

/** Ubuntu 24.04, which GitHub's runners have: Debian has no package of its keys. */
const ubuntu = {
  mirror: "http://archive.ubuntu.com/ubuntu",
  keys: "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb",
  keysSha256: "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8",
} as const;

/**
 * What a system has beyond a minimal one, which has no recommended packages. `fresh`: what the README asks for. `bare`:
 * nothing, as Debian's image in a workflow. `policies`: what the pods of an enforcer of network policies execute.
 * `runner`: what our workflows use of a runner's image.
 */
const contents = {
  fresh: ["nodejs", "npm", "git", "make"],
  bare: [],
  policies: ["iproute2", "ncat", "nftables"],
  runner: [
    "apt",
    "ca-certificates",
    "curl",
    "gcc",
    "libc6-dev",
    "git",
    "golang-go",
    "make",
    "nodejs",
    "npm",
    "sudo",
    "ubuntu-keyring",
  ],
} as const;

/** A release of Debian, or that of GitHub's runners. */
export type System = Release | "noble";

/** What a root file system has. */
export type Contents = keyof typeof contents;

/**
 * Returns the root file system of a minimal Debian or Ubuntu, and has mmdebstrap make it if the cache has none. It is
 * only read.
 * @throws Error when mmdebstrap fails, with what it printed
 */
export async function rootFileSystem(release: System, has: Contents = "fresh"): Promise<string> {
  const packages = contents[has];
  const inputs = [release, ...packages, await readFile(import.meta.filename)];
  const cached = await cachedDirectory(`${has}-${release}`, inputs, async (directory) => {
    const settings = join(directory, "apt.conf");
    await writeFile(settings, await aptSettings());
    // mmdebstrap mounts what the packages' scripts need: what is killed leaves no mount behind.
    const privately = ["unshare", "--mount", "--propagation=private", "--"] as const;
    const include = packages.length === 0 ? [] : [`--include=${packages.join(",")}`];
    const options = ["--variant=minbase", ...include];
    const apt = [
      `--aptopt=${settings}`,
      '--customize-hook=rm "$1"/etc/apt/apt.conf.d/99mmdebstrap',
    ];
    const target = [release, join(directory, "root"), ...(await sourceOf(release, directory))];
    await run([...privately, "mmdebstrap", "--quiet", ...options, ...apt, ...target]);
  });
  return join(cached, "root");
}

/** The mirror of a release, and what makes mmdebstrap accept its signature. */
async function sourceOf(release: System, directory: string): Promise<string[]> {
  if (release !== "noble") return [await mirror()];
  const deb = join(directory, "keyring.deb");
  await run(["curl", "-fsSL", "--output", deb, `${ubuntu.mirror}/${ubuntu.keys}`]);
  const sha256 = createHash("sha256")
    .update(await readFile(deb))
    .digest("hex");
  if (sha256 !== ubuntu.keysSha256) throw new Error(`${ubuntu.keys} has the checksum ${sha256}`);
  await run(["dpkg-deb", "--extract", deb, directory]);
  const keyring = join(directory, "usr/share/keyrings/ubuntu-archive-keyring.gpg");
  return [ubuntu.mirror, `--keyring=${keyring}`, "--components=main,universe"];
}
