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

/** What the README asks for, and nothing else: neither recommendations nor packages of standard priority. */
const packages = ["nodejs", "npm", "git", "make"];

/**
 * Returns the root file system of a minimal Debian, and has mmdebstrap make it if the cache has none. It is only read.
 * @throws Error when mmdebstrap fails, with what it printed
 */
export async function rootFileSystem(release: Release): Promise<string> {
  const inputs = [release, ...packages, await readFile(import.meta.filename)];
  const cached = await cachedDirectory(`fresh-${release}`, inputs, async (directory) => {
    const settings = join(directory, "apt.conf");
    await writeFile(settings, await aptSettings());
    // mmdebstrap mounts what the packages' scripts need: what is killed leaves no mount behind.
    const privately = ["unshare", "--mount", "--propagation=private", "--"] as const;
    const options = ["--variant=minbase", `--include=${packages.join(",")}`];
    const apt = [
      `--aptopt=${settings}`,
      '--customize-hook=rm "$1"/etc/apt/apt.conf.d/99mmdebstrap',
    ];
    const target = [release, join(directory, "root"), await mirror()];
    await run([...privately, "mmdebstrap", "--quiet", ...options, ...apt, ...target]);
  });
  return join(cached, "root");
}
