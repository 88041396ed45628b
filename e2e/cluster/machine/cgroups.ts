import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "./run.ts";

const mountPoint = "/sys/fs/cgroup";

/**
 * Makes a control group of this name in every hierarchy (cgroup v1) or in the one (v2). The kubelet keeps its
 * pods below it, and asks that it be there. The reaper removes it.
 */
export async function makeCgroups(name: string): Promise<void> {
  for (const root of await hierarchies()) {
    const group = join(root, name);
    await mkdir(group);
    // A v1 cpuset takes no process before both are set.
    for (const setting of ["cpuset.cpus", "cpuset.mems"]) {
      if (root.endsWith("/cpuset") && existsSync(join(group, setting))) {
        await writeFile(join(group, setting), await readFile(join(root, setting)));
      }
    }
  }
}

/** Removes all that is below the control groups of this name, as a reboot does. No process may be left there. */
export async function clearCgroups(name: string): Promise<void> {
  const groups = (await hierarchies()).map((root) => join(root, name));
  await run(["find", ...groups, "-mindepth", "1", "-depth", "-type", "d", "-delete"]);
}

async function hierarchies(): Promise<string[]> {
  if (existsSync(join(mountPoint, "cgroup.controllers"))) {
    return [mountPoint];
  }
  const entries = await readdir(mountPoint, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(mountPoint, name));
}
