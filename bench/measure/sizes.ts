import { existsSync, statSync } from "node:fs";
import { distPath, repositoryRoot } from "../../e2e/support/paths.ts";
import type { Multus } from "../peers/multus.ts";
import type { Place } from "../place.ts";
import type { Results } from "../results.ts";

/** Bytes of what each contender puts on a node; of Plexus's image where `make image` has made it. */
export async function installedSizes(
  place: Place,
  multus: Multus | undefined,
): Promise<Results["sizes"]> {
  const image = `${repositoryRoot}/dist/plexus-image.tar`;
  const files: [string, string][] = [
    ["plexus (on the host)", place.builds[0].shim],
    ["plexus-standalone (on the host, optional)", place.standalone],
    ["plexusd.js (in the image)", distPath("plexusd.js")],
    ["Node (in the image)", process.execPath],
  ];
  if (existsSync(image)) files.push(["the image of Plexus, as a tar file", image]);
  if (multus !== undefined) {
    files.push(
      ["multus (on the host, thin)", multus.thin],
      ["multus-shim (on the host, thick)", multus.shim],
      ["multus-daemon (in the image, thick)", multus.daemon],
    );
  }
  return files.map(([what, path]) => ({ what, bytes: statSync(path).size }));
}
