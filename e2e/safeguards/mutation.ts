import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Property } from "../simulation/properties.ts";
import { repositoryRoot } from "../support/paths.ts";

/** A change of one file of the product: text that occurs once in it, and what replaces it. */
export interface SourceChange {
  /** From the repository's root. */
  readonly file: string;
  readonly find: string;
  /** @default nothing */
  readonly replace?: string;
}

/** A safeguard, the change that takes it out of the product, and what shows its absence. */
export interface Mutation extends SourceChange {
  /** The safeguard. */
  readonly name: string;
  /** For a change of the shim: the same in the simulation's model of the shim. */
  readonly inModel?: SourceChange;
  /** A history violates one of these. */
  readonly properties?: readonly Property[];
  /** Whether that takes so many histories that CI does not search it. @default false */
  readonly isSlow?: boolean;
  /** A scenario of the fault matrix leaves something, or is never answered. */
  readonly scenario?: string;
  /** What it leaves, and nothing else. @default anything */
  readonly leaves?: readonly RegExp[];
}

/** The changed text of a file. @throws Error when the text of the change does not occur exactly once */
export async function changedText({ file, find, replace = "" }: SourceChange): Promise<string> {
  const text = await readFile(join(repositoryRoot, file), "utf8");
  const count = text.split(find).length - 1;
  if (count !== 1) throw new Error(`the text occurs ${count} times in ${file}: ${find}`);
  return text.replace(find, () => replace);
}
