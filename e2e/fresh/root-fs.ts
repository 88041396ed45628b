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

/**
 * What a system has beyond a minimal Debian without recommendations and packages of standard priority: what the README
 * asks for, or nothing, as Debian's image in a workflow, or what the pods of an enforcer of network policies execute.
 */
const contents = {
  fresh: ["nodejs", "npm", "git", "make"],
  bare: [],
  policies: ["iproute2", "ncat", "nftables"],
} as const;

/** What a root file system has. */
export type Contents = keyof typeof contents;

/**
 * Returns the root file system of a minimal Debian, and has mmdebstrap make it if the cache has none. It is only read.
 * @throws Error when mmdebstrap fails, with what it printed
 */
export async function rootFileSystem(release: Release, has: Contents = "fresh"): Promise<string> {
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
    const target = [release, join(directory, "root"), await mirror()];
    await run([...privately, "mmdebstrap", "--quiet", ...options, ...apt, ...target]);
  });
  return join(cached, "root");
}
