import { join } from "node:path";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import type { ConfFiles, Logger } from "#engine/ports.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import type { PrimaryChoice } from "./choose-primary.ts";
import { findForeignChange, RestoreBackoff } from "./foreign-change.ts";
import type { ChoosePhase, GuardPhase, Phase, WaitPhase, WritePhase } from "./phases.ts";
import {
  plexusConfText,
  readCniConfDir,
  removeTemporaryFiles,
  writePlexusConf,
} from "./plexus-conf.ts";
import { checkPrerequisites } from "./prerequisites.ts";
import { PreviousPrimary } from "./previous-primary.ts";
import { PrimaryChooser } from "./primary-chooser.ts";
import { type NodeConfStatus, statusWhenChangedByOthers, statusWhenUpToDate } from "./status.ts";
import type { NodeConfTimings } from "./timings.ts";

/** Options of a {@link NodeConfReconciler}. */
export interface ReconcilerOptions {
  readonly spec: () => NodeConfSpec;
  /** Where the name of the primary CNI's file is kept. */
  readonly stateDir: string;
  readonly files: ConfFiles;
  readonly logger: Logger;
  readonly timings: NodeConfTimings;
}

/** Reconciles the runtime's directory with the specification: one method per {@link Phase}. */
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
    this.#chooser = new PrimaryChooser({ files, goneMs: timings.goneMs });
    this.#restoreBackoff = new RestoreBackoff(timings);
  }

  /** Reads the state of a previous process; once, before the first round. */
  async load(): Promise<void> {
    const { files } = this.#options;
    await removeTemporaryFiles(this.#spec.cniConfDir, files);
    this.#text = (await readCniConfDir(this.#spec.cniConfDir, files)).text;
    await this.#previous.load(this.#text);
  }

  /** One round, up to the next wait. @throws Error when a directory cannot be read or written */
  async reconcile(): Promise<WaitPhase> {
    this.#spec = this.#options.spec();
    let phase: Phase = { phase: "choose" };
    while (phase.phase !== "wait") phase = await this.#next(phase);
    return phase;
  }

  #next(phase: ChoosePhase | GuardPhase | WritePhase): Promise<Phase> {
    switch (phase.phase) {
      case "choose":
        return this.#choose();
      case "guard":
        return this.#guard(phase);
      case "write":
        return this.#write(phase);
    }
  }

  /** → wait if no file was written yet and a primary or prerequisite is missing; else → guard. */
  async #choose(): Promise<Phase> {
    const choice = await this.#choice();
    if (choice.kind !== "waiting") {
      const primary = choice.kind === "primary" ? choice.primary : undefined;
      return { phase: "guard", choice, wanted: plexusConfText({ ...this.#spec, primary }) };
    }
    // The last good file stays while its primary is broken or missing.
    if (this.#text !== undefined) return { phase: "guard", choice, wanted: this.#text };
    return this.#waitWith({ state: "waiting", reason: choice.reason }, choice);
  }

  async #choice(): Promise<PrimaryChoice> {
    const { stateDir, files } = this.#options;
    const { problem, warning } = await checkPrerequisites({ spec: this.#spec, stateDir, files });
    if (problem !== undefined) return { kind: "waiting", reason: problem };
    this.#warning = warning;
    const isFirst = this.#text === undefined;
    return this.#chooser.choose(this.#spec, { previous: this.#previous.file, isFirst });
  }

  /** → wait while Plexus's file is as wanted, or the restore backs off; else → write. */
  async #guard({ choice, wanted }: GuardPhase): Promise<Phase> {
    const dir = await readCniConfDir(this.#spec.cniConfDir, this.#options.files);
    const undo = findForeignChange(dir, this.#text ?? this.#lostText(wanted));
    if (undo === undefined) {
      this.#restoreBackoff.notNeeded();
    } else {
      this.#text = wanted;
      const atMostMs = this.#restoreBackoff.waitMs();
      const status = statusWhenChangedByOthers(undo, choice);
      if (atMostMs > 0) return { phase: "wait", status, atMostMs };
    }
    return dir.text === wanted
      ? this.#waitAfter(choice)
      : { phase: "write", choice, text: wanted, undo };
  }

  /** → wait. */
  async #write({ choice, text, undo }: WritePhase): Promise<Phase> {
    const { cniConfDir } = this.#spec;
    const { logger } = this.#options;
    await writePlexusConf(cniConfDir, text);
    this.#text = text;
    const path = join(cniConfDir, plexusConfName);
    if (undo === undefined) {
      logger.info({ path }, "node configuration written");
    } else {
      this.#restoreBackoff.restored();
      const { state, reason } = statusWhenChangedByOthers(undo, choice);
      logger.warn({ path, state, reason }, "node configuration restored");
    }
    return this.#waitAfter(choice);
  }

  async #waitAfter(choice: PrimaryChoice): Promise<WaitPhase> {
    if (choice.kind === "primary") await this.#previous.save(choice.primary.file);
    const dir = await readCniConfDir(this.#spec.cniConfDir, this.#options.files);
    return this.#waitWith(statusWhenUpToDate(choice, dir), choice);
  }

  #waitWith(found: NodeConfStatus, choice: PrimaryChoice): WaitPhase {
    const unseen = choice.kind === "primary" ? choice.primary.warning : undefined;
    const warning = [this.#warning, unseen].filter((each) => each !== undefined).join("; ");
    const status = warning === "" ? found : { ...found, warning };
    const { pollMs, waitingPollMs } = this.#options.timings;
    const dueMs = status.state === "active" ? pollMs : waitingPollMs;
    const reconsiderMs = choice.kind === "not-needed" ? undefined : choice.reconsiderMs;
    return { phase: "wait", status, atMostMs: Math.min(dueMs, reconsiderMs ?? dueMs) };
  }

  /** The file was removed while plexusd was not running: a previous primary proves it existed. */
  #lostText(wanted: string): string | undefined {
    return this.#previous.file === undefined ? undefined : wanted;
  }
}
