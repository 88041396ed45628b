import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Metafile } from "esbuild";
import type { Component } from "./component.ts";
import { noticeOf } from "./notice.ts";
import { npmPackage, packagesOf } from "./npm.ts";

/** Writes LICENSE, and NOTICE for these components, into a directory of an artifact. */
export async function writeLicences(
  directory: string,
  components: readonly Component[] = [],
): Promise<void> {
  await mkdir(directory, { recursive: true });
  await copyFile(join(import.meta.dirname, "../../LICENSE"), join(directory, "LICENSE"));
  await writeFile(join(directory, "NOTICE"), noticeOf(components));
}

/** The same for a package of npm whose one file is this bundle. */
export async function writeBundleLicences(directory: string, metafile: Metafile): Promise<void> {
  await writeLicences(directory, await Promise.all(packagesOf(metafile).map(npmPackage)));
}
