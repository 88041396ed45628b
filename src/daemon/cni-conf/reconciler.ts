import { join } from "node:path";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import type { ConfFiles, Logger } from "#engine/ports.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type PrimaryChoice, PrimaryChooser } from "./choose-primary.ts";
import {
  type ForeignChange,
  findForeignChange,
  RestoreBackoff,
  type RestoreTimings,
} from "./foreign-change.ts";
import {
  plexusConfText,
  readCniConfDir,
  removeTemporaryFiles,
  writePlexusConf,
} from "./plexus-conf.ts";
import { checkPrerequisites } from "./prerequisites.ts";
import { PreviousPrimary } from "./previous-primary.ts";
import { type NodeConfStatus, primaryFileOf, statusWhenUpToDate } from "./status.ts";

/** Times of keeping the node's CNI configuration. */
export interface NodeConfTimings extends RestoreTimings {
  /** How often everything is checked without a change. */
  readonly pollMs: number;
  /** The same in state `waiting`, whose cause may be outside of the watched directories. */
  readonly waitingPollMs: number;
  /** Delay between a change and the check: agents write several files. */
  readonly debounceMs: number;
  /** How long a previous primary may be missing before another one replaces it. */
  readonly goneMs: number;
}

/** Options of a {@link NodeConfReconciler}. */
export interface ReconcilerOptions {
  readonly spec: () => NodeConfSpec;
  /** Where the name of the primary CNI's file is kept. */
  readonly stateDir: string;
  readonly files: ConfFiles;
  readonly logger: Logger;
  readonly timings: NodeConfTimings;
}

/** What a round found, and how long to wait at most for the next one. */
export interface Round {
  readonly status: NodeConfStatus;
  readonly atMostMs: number;
}

/**
 * Reconciles the runtime's directory with the specification. It never removes Plexus's file:
 * hand-back.ts does.
 */
export class NodeConfReconciler {
  readonly #options: ReconcilerOptions;
  readonly #previous: PreviousPrimary;
  readonly #chooser: PrimaryChooser;
  readonly #restoreBackoff: RestoreBackoff;
  /** Plexus's file as written or to be restored; undefined when it was never written. */
  #text: string | undefined;
  #spec: NodeConfSpec;
  /** Prerequisites of an ADD that plexusd cannot see. */
  #warning: string | undefined;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#spec = options.spec();
    this.#previous = new PreviousPrimary(options.stateDir);
    const { files, timings } = options;
    this.#chooser = new PrimaryChooser(files, timings.goneMs);
    this.#restoreBackoff = new RestoreBackoff(timings);
  }

  /** Reads the state of a previous process; once, before the first round. */
  async load(): Promise<void> {
    const { files } = this.#options;
    await removeTemporaryFiles(this.#spec.cniConfDir, files);
    this.#text = (await readCniConfDir(this.#spec.cniConfDir, files)).text;
    await this.#previous.load(this.#text);
  }

  /** One round. @throws Error when a directory cannot be read or written */
  async reconcile(): Promise<Round> {
    this.#spec = this.#options.spec();
    const choice = await this.#choose();
    if (choice.kind !== "waiting") {
      const primary = choice.kind === "primary" ? choice.primary : undefined;
      return this.#keep(plexusConfText({ ...this.#spec, primary }), choice);
    }
    // The last good file stays while its primary is broken or missing.
    if (this.#text !== undefined) return this.#keep(this.#text, choice);
    return this.#round({ state: "waiting", reason: choice.reason }, choice);
  }

  async #choose(): Promise<PrimaryChoice> {
    const { stateDir, files } = this.#options;
    const { problem, warning } = await checkPrerequisites({ spec: this.#spec, stateDir, files });
    if (problem !== undefined) return { kind: "waiting", reason: problem };
    this.#warning = warning;
    const isFirst = this.#text === undefined;
    return this.#chooser.choose(this.#spec, { previous: this.#previous.file, isFirst });
  }

  /** Writes Plexus's file unless it is as wanted, or the restore backs off. */
  async #keep(wanted: string, choice: PrimaryChoice): Promise<Round> {
    const { files } = this.#options;
    const { cniConfDir } = this.#spec;
    const dir = await readCniConfDir(cniConfDir, files);
    // A previous primary proves that the file was removed while plexusd was not running.
    const lost = this.#previous.file === undefined ? undefined : wanted;
    const undo = findForeignChange(dir, this.#text ?? lost);
    if (undo === undefined) {
      this.#restoreBackoff.notNeeded();
    } else {
      this.#text = wanted;
      const atMostMs = this.#restoreBackoff.waitMs();
      if (atMostMs > 0) return { status: { ...undo, ...primaryFileOf(choice) }, atMostMs };
    }
    if (dir.text !== wanted) await this.#write(wanted, undo);
    if (choice.kind === "primary") await this.#previous.save(choice.primary.file);
    return this.#round(statusWhenUpToDate(choice, await readCniConfDir(cniConfDir, files)), choice);
  }

  async #write(text: string, undo: ForeignChange | undefined): Promise<void> {
    const { cniConfDir } = this.#spec;
    const { logger } = this.#options;
    await writePlexusConf(cniConfDir, text);
    this.#text = text;
    const path = join(cniConfDir, plexusConfName);
    if (undo === undefined) {
      logger.info({ path }, "node configuration written");
    } else {
      this.#restoreBackoff.restored();
      logger.warn({ path, ...undo }, "node configuration restored");
    }
  }

  #round(found: NodeConfStatus, choice: PrimaryChoice): Round {
    const unseen = choice.kind === "primary" ? choice.primary.warning : undefined;
    const warning = [this.#warning, unseen].filter((each) => each !== undefined).join("; ");
    const next = choice.kind === "not-needed" ? undefined : choice.next;
    const status = omitUndefined({
      ...found,
      warning: warning === "" ? undefined : warning,
      next: next && { file: next.file, at: next.at },
    });
    const { pollMs, waitingPollMs } = this.#options.timings;
    const dueMs = status.state === "active" ? pollMs : waitingPollMs;
    return { status, atMostMs: Math.min(dueMs, next?.inMs ?? dueMs) };
  }
}
