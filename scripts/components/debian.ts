import { readFile, realpath } from "node:fs/promises";
import { execa } from "execa";
import type { Component } from "./component.ts";

/** A package of Debian, with what dpkg knows about it. */
export interface DebianPackage {
  readonly name: string;
  readonly component: Component;
  /** Its paragraph of dpkg's status file, as images without dpkg have it in var/lib/dpkg/status.d. */
  readonly status: string;
}

/** The packages of Debian that own these files of this machine. A file that none owns is left out. */
export async function debianPackages(files: readonly string[]): Promise<DebianPackage[]> {
  const names = new Set<string>();
  for (const file of files) for (const name of await ownersOf(file)) names.add(name);
  return await Promise.all([...names].toSorted().map(debianPackage));
}

/** dpkg knows a file of /usr by the name that its package gave it, which may lack /usr. */
async function ownersOf(file: string): Promise<string[]> {
  const path = await realpath(file);
  for (const each of [path, path.replace(/^\/usr\//, "/")]) {
    const found = await execa("dpkg-query", ["--search", each], { reject: false });
    if (found.exitCode === 0) {
      const [owners = ""] = found.stdout.split(`: ${each}`);
      return owners.split(", ").map((owner) => owner.split(":")[0] ?? owner);
    }
  }
  return [];
}

/** The package of this name. @throws Error when it is not installed */
export async function debianPackage(name: string): Promise<DebianPackage> {
  const { stdout } = await execa("dpkg-query", ["--status", name]);
  const [, version = ""] = /^Version: (.*)$/m.exec(stdout) ?? [];
  const [, architecture = ""] = /^Architecture: (.*)$/m.exec(stdout) ?? [];
  const release = /^VERSION_CODENAME=(.*)$/m.exec(await readFile("/etc/os-release", "utf8"))?.[1];
  const purl = `pkg:deb/debian/${name.replaceAll("+", "%2B")}@${encodeURIComponent(version)}?arch=${architecture}&distro=${release}`;
  const text = await readFile(`/usr/share/doc/${name}/copyright`, "utf8");
  const component = { type: "library", name, version, purl, text } as const;
  return { name, component, status: `${stdout.trimEnd()}\n` };
}
