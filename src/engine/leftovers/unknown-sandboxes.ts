import type { EngineDeps } from "#engine/call/deps.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { errorMessage } from "#lib/error-message.ts";
import { recordFileName } from "#lib/files/state-files.ts";

/**
 * How long a sandbox must have been missing from the container runtime's list: longer than the kubelet
 * waits for one to be made, as a runtime may list it only when it is complete.
 */
const unknownForMs = 300_000;

/** When lists did not have a sandbox, on the monotonic clock. */
interface Absence {
  readonly first: number;
  readonly last: number;
}

/**
 * Which recorded sandboxes the container runtime does not know. It has them on its list until it has
 * deleted them, so nobody will ask for their DEL any more, whether their namespace exists or not.
 */
export class UnknownSandboxes {
  readonly #deps: Pick<EngineDeps, "runtimeSandboxes" | "clock" | "logger">;
  /** By record. */
  #absences: ReadonlyMap<string, Absence> = new Map();
  #lastListedAt: string | undefined;
  #lastProblem: string | undefined;

  constructor(deps: Pick<EngineDeps, "runtimeSandboxes" | "clock" | "logger">) {
    this.#deps = deps;
  }

  /** Whether the runtime has certainly been without the record's sandbox for long enough. */
  has(record: AttachmentRecord): boolean {
    const absence = this.#absences.get(recordFileName(record));
    return absence !== undefined && absence.last - absence.first >= unknownForMs;
  }

  /** Compares these records, which are all that there are, with the newest list. Never rejects. */
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
   * The container IDs of a list that was not seen before. An empty one says nothing: plexusd's own pod
   * has a sandbox, so that the list is of another runtime, or of one that has lost its state.
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
        logger.warn({ err: error }, "the container runtime's list of sandboxes cannot be used");
      }
      this.#lastProblem = problem;
      return undefined;
    }
  }
}

/** Only the kubelet's sandboxes are on the list: other callers of CNI name no pod. */
function isPods(record: AttachmentRecord): boolean {
  return record.pod !== undefined;
}
