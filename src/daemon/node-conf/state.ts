import type { Choice } from "./choose.ts";
import type { OwnFileView } from "./own-file.ts";
import { ownFileName } from "./primary.ts";

/**
 * The state of the node's configuration:
 * - `active`: the container runtime calls Plexus, and the primary's configuration can be used
 * - `waiting`: for a primary; a file that is there already stays
 * - `shadowed`: the container runtime takes another file
 * - `missing`: ours was removed or changed by someone else; it is being restored
 * - `foreign-rename`: ours was renamed by someone else; it is being restored
 */
export const confStates = ["active", "waiting", "shadowed", "missing", "foreign-rename"] as const;
export type ConfState = (typeof confStates)[number];

/** The state, and for people why. */
export interface ConfStatus {
  readonly state: ConfState;
  /** One sentence. */
  readonly reason: string;
  /** The file that the default network is delegated to. */
  readonly primary?: string;
}

/** The state when our file says what it should. */
export function statusOf(choice: Choice | { primary: undefined }, view: OwnFileView): ConfStatus {
  const primary = "primary" in choice ? choice.primary?.file : undefined;
  const named = primary === undefined ? {} : { primary };
  const first = view.before[0];
  if (first !== undefined) {
    const reason = `the container runtime takes ${first}, which sorts before ${ownFileName}`;
    return { state: "shadowed", reason, ...named };
  }
  if ("waiting" in choice) return { state: "waiting", reason: choice.waiting };
  const reason = primary === undefined ? "without a primary CNI" : `delegating to ${primary}`;
  return { state: "active", reason, ...named };
}
