import { mkdirSync, symlinkSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { setUpNode } from "../../support/node-setup.ts";
import { cniPluginDir } from "../../support/paths.ts";
import { hostAddressType, pluginTypes } from "./topology.ts";

/** Where one worker works. It is alone in network, mount and process namespaces, so names can be fixed. */
export interface Place {
  readonly root: string;
  /** A small file system that faults fill up. */
  readonly disk: string;
  readonly stateDir: string;
  /** Searched for plugins: gates before the real ones. */
  readonly binDir: string;
  /** Where `binDir` goes when plugins are moved. */
  readonly movedDir: string;
}

/**
 * Few, as faults fill the disk up; but more than a worker of the fault matrix needs for the
 * tombstones of all its runs, which are kept for longer than the runs last.
 */
const fewInodes = 1024;

/** Flags of unshare(1) for a process that is to call {@link preparePlace}. */
export const namespaceFlags = [
  "--net",
  "--mount",
  "--pid",
  "--fork",
  "--kill-child",
  "--mount-proc",
  "--propagation",
  "private",
];

/**
 * Prepares the namespaces that this process is alone in; `fixtures` is the directory of the compiled
 * fixtures, and `inodes` how many files the disk has room for.
 */
export async function preparePlace(fixtures: string, inodes = fewInodes): Promise<Place> {
  if (process.pid !== 1) throw new Error("this process is not alone in its namespaces");
  await setUpNode();
  const root = "/run/chaos";
  const disk = join(root, "disk");
  mkdirSync(disk, { recursive: true });
  const options = `size=4m,nr_inodes=${inodes},mode=700`;
  await execa("mount", ["-t", "tmpfs", "-o", options, "tmpfs", disk]);
  const folders = ["bin", "real", "control", "reached", "hidden", "lost", "tmp", "run", "etc"];
  for (const folder of folders) mkdirSync(join(root, folder));
  for (const type of pluginTypes) {
    await copyFile(join(fixtures, "gate"), join(root, "bin", type));
    const real = type === hostAddressType ? fixtures : cniPluginDir();
    symlinkSync(join(real, type), join(root, "real", type));
  }
  return {
    root,
    disk,
    stateDir: join(disk, "state"),
    binDir: join(root, "bin"),
    movedDir: join(root, "moved"),
  };
}
