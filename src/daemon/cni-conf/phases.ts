import type { PrimaryChoice } from "./choose-primary.ts";
import type { ForeignChange } from "./foreign-change.ts";
import type { NodeConfStatus } from "./status.ts";

/**
 * The phases of a reconciliation. `NodeConfReconciler` has a method for each, which returns the
 * next phase. Only the uninstaller (`giveBackNode` in src/cli) removes Plexus's file.
 */
export type Phase = ChoosePhase | GuardPhase | WritePhase | WaitPhase;

/** Decide which configuration is the primary CNI's. */
export interface ChoosePhase {
  readonly phase: "choose";
}

/** Check whether Plexus's file is as wanted. */
export interface GuardPhase {
  readonly phase: "guard";
  readonly choice: PrimaryChoice;
  readonly wanted: string;
}

/** Write Plexus's file: for the first time, with new content, or to undo a foreign change. */
export interface WritePhase {
  readonly phase: "write";
  readonly choice: PrimaryChoice;
  readonly text: string;
  readonly undo: ForeignChange | undefined;
}

/** Wait until a directory or the configuration changes, or `atMostMs` have passed. */
export interface WaitPhase {
  readonly phase: "wait";
  readonly status: NodeConfStatus;
  readonly atMostMs: number;
}
