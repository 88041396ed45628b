import type { EngineDeps } from "#engine/call/deps.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { errorMessage } from "#lib/error-message.ts";
import { recordFileName } from "#lib/files/state-files.ts";

/** Longer than the kubelet waits for a sandbox: a runtime may list it only once it is complete. */
const unknownForMs = 300_000;

interface Absence {
  readonly first: number;
  readonly last: number;
}

/** Recorded sandboxes that the runtime no longer lists: no DEL comes, even with a namespace. */
export class UnknownSandboxes {
  readonly #deps: Pick<EngineDeps, "runtimeSandboxes" | "clock" | "logger">;
  /** By record. */
  #absences: ReadonlyMap<string, Absence> = new Map();
  #lastListedAt: string | undefined;
  #lastProblem: string | undefined;

  constructor(deps: Pick<EngineDeps, "runtimeSandboxes" | "clock" | "logger">) {
    this.#deps = deps;
  }

  /** Whether the record's sandbox has been missing from the lists long enough. */
  has(record: AttachmentRecord): boolean {
    const absence = this.#absences.get(recordFileName(record));
    return absence !== undefined && absence.last - absence.first >= unknownForMs;
  }

  /** Compares all records with the newest list. Never rejects. */
  async lookUp(records: readonly AttachmentRecord[]): Promise<void> {
    const list = await this.#newList();
    if (list === undefined) return;
    const now = this.#deps.clock();
    const absent = records.filter((record) => isPods(record) && !list.has(record.containerId));
    this.#absences = new Map(
      absent.map((record) => {
        const key = recordFileName(record);
        return [key, { first: this.#absences.get(key)?.first ?? now, last: now }];
      }),
    );
  }

  /**
   * The container IDs of a list that was not seen before. An empty one is ignored: plexusd's own
   * pod has a sandbox, so the list is from another runtime, or from one that has lost its state.
   */
  async #newList(): Promise<ReadonlySet<string> | undefined> {
    const { runtimeSandboxes, logger } = this.#deps;
    try {
      const list = await runtimeSandboxes?.latest();
      this.#lastProblem = undefined;
      if (list === undefined || list.listedAt === this.#lastListedAt) return undefined;
      this.#lastListedAt = list.listedAt;
      return list.containerIds.size === 0 ? undefined : list.containerIds;
    } catch (error) {
      const problem = errorMessage(error);
      if (problem !== this.#lastProblem) {
        logger.warn({ err: error }, "cannot use the container runtime's list of sandboxes");
      }
      this.#lastProblem = problem;
      return undefined;
    }
  }
}

/** The list contains only the kubelet's sandboxes; other callers of CNI name no pod. */
function isPods(record: AttachmentRecord): boolean {
  return record.pod !== undefined;
}
