import type { PrimaryChoice } from "./choose-primary.ts";
import type { ForeignChange } from "./foreign-change.ts";
import type { NodeConfStatus } from "./status.ts";

/**
 * The phases of keeping the node's CNI configuration, which ARCHITECTURE.md draws. Each has a method
 * of its name in `NodeConfReconciler`, which returns the next one. The last phase, giving the node
 * back to its primary CNI, is the uninstaller's (`giveBackNode` in src/cli): plexusd never removes
 * its file.
 */
export type Phase = ChoosePhase | GuardPhase | WritePhase | WaitPhase;

/** Decide which configuration is the primary CNI's. */
export interface ChoosePhase {
  readonly phase: "choose";
}

/** Look whether our file is there and says what it should. */
export interface GuardPhase {
  readonly phase: "guard";
  readonly choice: PrimaryChoice;
  /** The text that our file should have. */
  readonly wanted: string;
}

/** Put our file in place: for the first time, with new content, or undoing a foreign change. */
export interface WritePhase {
  readonly phase: "write";
  readonly choice: PrimaryChoice;
  readonly text: string;
  readonly undo: ForeignChange | undefined;
}

/** Until a directory or the configuration changes, but for `atMostMs`. */
export interface WaitPhase {
  readonly phase: "wait";
  /** What is reported meanwhile. */
  readonly status: NodeConfStatus;
  readonly atMostMs: number;
}
