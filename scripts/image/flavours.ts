import { realpath } from "node:fs/promises";
import type { Contents } from "../components/shipped.ts";
import { caBundlePath, sharedLibraries } from "./root-files.ts";

/** What an image may contain beyond plexusd, plexusctl and the shim. */
export interface Flavour {
  /** plexus-standalone, for nodes that serve calls without plexusd: 120 MB. */
  readonly standalone: boolean;
  /** dist/plugins, for nodes that lack the CNI reference plugins. */
  readonly plugins: boolean;
}

/** The images of a release. */
export const flavours: readonly Flavour[] = [
  { standalone: false, plugins: false },
  { standalone: true, plugins: false },
  { standalone: false, plugins: true },
  { standalone: true, plugins: true },
];

/** What the tag of a release's image ends in. The chart chooses the tag in the same way. */
export function suffixOf({ standalone, plugins }: Flavour): string {
  return `${standalone ? "-standalone" : ""}${plugins ? "-plugins" : ""}`;
}

/** The names of an image: it serves every flavour of which it has the contents. */
export function namesOf(name: string, image: Flavour): string[] {
  const served = flavours.filter(
    ({ standalone, plugins }) => (!standalone || image.standalone) && (!plugins || image.plugins),
  );
  return served.map((each) => name + suffixOf(each));
}

/** What an image has of other projects. */
export async function contentsOf({ standalone, plugins }: Flavour): Promise<Contents> {
  const node = await realpath("node_modules/.bin/node");
  return {
    bundles: ["plexusd", ...(standalone ? (["plexus-standalone"] as const) : [])],
    plugins,
    copied: [node, ...(await sharedLibraries(node))],
    caBundle: caBundlePath() !== undefined,
  };
}
