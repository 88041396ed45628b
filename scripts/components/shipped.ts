import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import manifest from "../../package.json" with { type: "json" };
import type { Component } from "./component.ts";
import { type DebianPackage, debianPackage, debianPackages } from "./debian.ts";
import { goModules } from "./go.ts";
import { npmPackage } from "./npm.ts";

/** What an artifact has beside the pinned Node and Plexus's own files. */
export interface Contents {
  /** Bundles of dist/: `plexusd` has plexusctl and the chunks, too. */
  readonly bundles: readonly ("plexusd" | "plexus-standalone")[];
  /** Whether it has dist/plugins. */
  readonly plugins?: boolean;
  /** Files of this machine that were copied: libraries, programs. */
  readonly copied: readonly string[];
  /** Whether it has this machine's CA bundle. */
  readonly caBundle?: boolean;
}

/** The components of an artifact, and those of them that are files of Debian's packages. */
export interface Shipped {
  readonly components: readonly Component[];
  readonly packages: readonly DebianPackage[];
}

/** What of other projects is in an artifact. The shim is in each. */
export async function shipped(contents: Contents): Promise<Shipped> {
  const folders = await Promise.all(contents.bundles.map(foldersOf));
  const npm = await Promise.all([...new Set(folders.flat())].toSorted().map(npmPackage));
  const packages = await systemPackages(contents);
  const components = [
    await node(),
    ...(contents.bundles.includes("plexus-standalone") ? [await bun()] : []),
    ...npm,
    ...(contents.plugins === true ? await goModules("dist/plugins") : []),
    ...packages.map(({ component }) => component),
    ...(await shimLibc()),
  ];
  return { components, packages };
}

/** The list that scripts/bundle.ts writes. */
async function foldersOf(bundle: string): Promise<string[]> {
  return JSON.parse(await readFile(`dist/${bundle}.packages.json`, "utf8"));
}

async function systemPackages({ copied, caBundle }: Contents): Promise<DebianPackage[]> {
  if (!existsSync("/var/lib/dpkg/status")) {
    process.stderr.write("note: without dpkg, NOTICE and SBOM lack the system's libraries\n");
    return [];
  }
  const owners = await debianPackages(copied);
  return [...owners, ...(caBundle === true ? [await debianPackage("ca-certificates")] : [])];
}

/** The Node that package.json pins; its text names the libraries that it contains. */
async function node(): Promise<Component> {
  const version = manifest.devDependencies.node;
  const folder = `node_modules/node/node_modules/node-linux-${process.arch}`;
  const text = await readFile(join(folder, "LICENSE"), "utf8");
  const purl = `pkg:generic/node@${version}`;
  return { type: "application", name: "node", version, purl, licence: "MIT", text };
}

/** The package has no text: scripts/components/texts/bun.txt has those of Bun's LICENSE.md. */
async function bun(): Promise<Component> {
  const version = manifest.devDependencies.bun;
  const text = await readFile(join(import.meta.dirname, "texts/bun.txt"), "utf8");
  const purl = `pkg:generic/bun@${version}`;
  return { type: "application", name: "bun", version, purl, licence: "MIT", text };
}

/** The libc that the shim is linked with: musl where shim/Makefile finds musl-gcc. */
async function shimLibc(): Promise<Component[]> {
  if (!existsSync("/var/lib/dpkg/status")) return [];
  const { exitCode } = await execa("sh", ["-c", "command -v musl-gcc"], { reject: false });
  const { component } = await debianPackage(exitCode === 0 ? "musl" : "libc6-dev");
  return [component];
}
