import { signOfBoot } from "#engine/call/sign-of-boot.ts";
import { replaced, replacedRecords } from "#engine/del/signs-of-life.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { DamagedRecord } from "#engine/ports/records.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { recordFileName } from "#lib/files/state-files.ts";
import { isInterruptedAdd } from "./leftover.ts";
import { MissingPods } from "./missing-pods.ts";

/** After start-up, in which the runtime can delete sandboxes from before a reboot itself. */
const graceMs = 600_000;

/** Its DEL has begun, or its ADD was interrupted: the runtime has ended it. */
export const ended = "it has ended";

/** What says of recorded sandboxes that they are over. */
export class Absences {
  readonly #deps: EngineDeps;
  readonly #missingPods: MissingPods;
  readonly #startedAt: number;
  #replaced: ReadonlySet<string> = new Set();
  /** Damaged records whose time was not of this boot. A clock that was set back reaches it later. */
  #older: ReadonlySet<string> = new Set();

  constructor(deps: EngineDeps) {
    this.#deps = deps;
    this.#missingPods = new MissingPods(deps);
    // A process for one call counts from the machine's start.
    this.#startedAt = deps.leftoverDuty === "oneCall" ? 0 : deps.clock();
  }

  /** Call it repeatedly. */
  lookUp(records: readonly AttachmentRecord[]): void {
    const bootId = this.#deps.bootId();
    this.#replaced = new Set(replacedRecords(records, bootId).map(recordFileName));
    if (this.#deps.leftoverDuty !== "oneCall") void this.#missingPods.lookUp(records);
  }

  /**
   * Whether a sandbox has ended; else a sign of that, which is not enough, if there is one.
   * @param nowMs by `EngineDeps.clock`, before the record was read
   */
  of(record: AttachmentRecord, nowMs = this.#deps.clock()): string | undefined {
    if (record.teardown !== undefined || isInterruptedAdd(record, nowMs)) return ended;
    if (this.#replaced.has(recordFileName(record))) return replaced;
    if (this.#missingPods.has(record)) return "its pod is gone";
    return this.#graceIsOver() ? signOfBoot(record, this.#deps) : undefined;
  }

  /**
   * Those whose content was lost with the power, and their sandboxes with it. Something else can
   * have emptied a file while its sandbox runs, and its time is one sign only: a clock can be wrong,
   * and stops in a suspend. The other is that no ADD has succeeded: its record would be synced.
   */
  async lost(damaged: readonly DamagedRecord[]): Promise<DamagedRecord[]> {
    const older = damaged.filter(
      (record) => this.#older.has(recordFileName(record)) || !this.#isOfThisBoot(record.modifiedMs),
    );
    this.#older = new Set(older.map(recordFileName));
    if (!this.#graceIsOver()) return [];
    const lost: DamagedRecord[] = [];
    for (const record of older) {
      if (!record.isIncomplete) continue;
      if (!(await this.#deps.multusFiles.mayHaveCachedAdd(record.containerId))) lost.push(record);
    }
    return lost;
  }

  /** Not in the future: then the clock was set back, as it may be at a start. */
  #isOfThisBoot(timeMs: number): boolean {
    const nowMs = Date.parse(this.#deps.now());
    return timeMs >= nowMs - this.#deps.clock() && timeMs <= nowMs;
  }

  /** Whether the runtime has had time to delete sandboxes from before a reboot. */
  #graceIsOver(): boolean {
    return this.#deps.clock() - this.#startedAt >= graceMs;
  }
}
