import { existsSync } from "node:fs";
import { join } from "node:path";
import { debianRoot } from "../cluster/machine/debian.ts";
import { builtModule } from "../cluster/machine/go-module.ts";

const until10 = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0"];

/** Every released version of the CNI specification. */
export const cniVersions: readonly string[] = [...until10, "1.1.0"];

/** A release of the reference plugins. */
export interface PluginRelease {
  readonly name: string;
  /** The versions that its bridge and host-local speak. */
  readonly versions: readonly string[];
  /** Finds the directory of its plugins; throws when they are not to be had. */
  find(): Promise<string>;
}

/** Debian stable's, installed on the machine, and the current one, as Debian unstable has it. */
export const pluginReleases: readonly PluginRelease[] = [
  { name: "1.1.1", versions: until10, find: async () => installedPlugins() },
  { name: "1.9", versions: cniVersions, find: async () => join(await debianRoot(), "usr/lib/cni") },
];

/** The independent runtime that the tests drive Plexus with: the CNI project's own, on libcni. */
export async function cnitoolBinary(): Promise<string> {
  const module = "github.com/containernetworking/cni@v1.3.0";
  const programs = { cnitool: "./cnitool" };
  return join(await builtModule({ name: "cnitool", module, programs }), "cnitool");
}

function installedPlugins(): string {
  const dir = "/usr/lib/cni";
  if (existsSync(join(dir, "host-local"))) return dir;
  throw new Error(`the CNI reference plugins are missing in ${dir}: run \`make deps\``);
}
