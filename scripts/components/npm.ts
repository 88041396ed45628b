import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Metafile } from "esbuild";
import type { Component } from "./component.ts";

const root = join(import.meta.dirname, "../..");

/** The folders of the npm packages that a bundle contains, without those of which it has not a byte. */
export function packagesOf({ outputs }: Metafile): string[] {
  const folders = Object.values(outputs).flatMap(({ inputs }) =>
    Object.entries(inputs)
      .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
      .flatMap(
        ([path]) => /(node_modules\/.*)?node_modules\/(@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? [],
      ),
  );
  return [...new Set(folders)].toSorted();
}

/** The component that a folder of node_modules is. @throws Error if the package has no text of its licence */
export async function npmPackage(folder: string): Promise<Component> {
  const path = join(root, folder);
  const { name, version, license } = JSON.parse(await readFile(join(path, "package.json"), "utf8"));
  const files = (await readdir(path)).filter((file) =>
    /^(licen[cs]e|copying|notice)\b/i.test(file),
  );
  const texts = await Promise.all(files.map((file) => readFile(join(path, file), "utf8")));
  if (texts.length === 0) throw new Error(`${folder} has no text of its licence`);
  const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
  return { type: "library", name, version, purl, licence: license, text: texts.join("\n") };
}
