import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { type AttachmentRecord, calledUid } from "#engine/record/record.ts";
import { recordFileName } from "#lib/files/state-files.ts";

/** How long a pod must be absent before its sandbox is a leftover. */
const absentForMs = 600_000;

/** Which recorded pods no longer exist, and since when. A pod's UID never returns. */
export class MissingPods {
  readonly #deps: Pick<EngineDeps, "source" | "clock">;
  /** By record: when the pod was first found to be absent. */
  #absentSince: ReadonlyMap<string, number> = new Map();
  #isLooking = false;

  constructor(deps: Pick<EngineDeps, "source" | "clock">) {
    this.#deps = deps;
  }

  /** Whether the record's pod has certainly been absent long enough. */
  has(record: AttachmentRecord): boolean {
    const since = this.#absentSince.get(recordFileName(record));
    return since !== undefined && this.#deps.clock() - since >= absentForMs;
  }

  /** Call it repeatedly, but do not await it in a call: it may ask the API. Never rejects. */
  async lookUp(records: readonly AttachmentRecord[]): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const absent: string[] = [];
    for (const record of records)
      if (await this.#isAbsent(record)) absent.push(recordFileName(record));
    const now = this.#deps.clock();
    this.#absentSince = new Map(absent.map((name) => [name, this.#absentSince.get(name) ?? now]));
    this.#isLooking = false;
  }

  /** A pod is not absent when the source is not ready or fails. */
  async #isAbsent(record: AttachmentRecord): Promise<boolean> {
    const { source } = this.#deps;
    const { pod } = record;
    if (source === undefined || pod === undefined) return false;
    try {
      if (source.notReadyReason() !== undefined) return false;
      // The mirror of a static pod may have been made anew.
      const uid = calledUid(record) ?? pod.uid;
      return (await source.getPod({ ...pod, uid }, {})) === undefined;
    } catch {
      return false;
    }
  }
}
