import { readFileSync } from "node:fs";
import { parse } from "yaml";

const deploy = new URL("../../deploy/", import.meta.url);

/** A folder of deploy/ that has resources, and no patches. */
export type PlainFolder = "base" | "uninstall";

/**
 * The resources of a folder of deploy/ one after the other, with their comments, for people without
 * kustomize; `image` takes the place of the name that they have for it.
 */
export function plainManifest(folder: PlainFolder, image: string): string {
  const { resources } = parse(read(`${folder}/kustomization.yaml`)) as { resources: string[] };
  const parts = resources.map((file) => read(`${folder}/${file}`).trimEnd());
  return `${parts.join("\n---\n")}\n`.replaceAll("image: plexus\n", `image: ${image}\n`);
}

function read(path: string): string {
  return readFileSync(new URL(path, deploy), "utf8");
}
