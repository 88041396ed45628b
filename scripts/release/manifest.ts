import { readFileSync } from "node:fs";
import { parse } from "yaml";

const deploy = new URL("../../deploy/", import.meta.url);

/** A folder of deploy/ with resources and without patches. */
export type PlainFolder = "base" | "uninstall";

/**
 * The resources of a folder of deploy/ in one file with their comments, for users without kustomize. `image`
 * replaces the image's placeholder.
 */
export function plainManifest(folder: PlainFolder, image: string): string {
  const { resources } = parse(read(`${folder}/kustomization.yaml`)) as { resources: string[] };
  const parts = resources.map((file) => read(`${folder}/${file}`).trimEnd());
  return `${parts.join("\n---\n")}\n`.replaceAll("image: plexus\n", `image: ${image}\n`);
}

function read(path: string): string {
  return readFileSync(new URL(path, deploy), "utf8");
}
