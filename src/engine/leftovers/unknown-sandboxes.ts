import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { errorMessage } from "#lib/error-message.ts";
import { recordFileName } from "#lib/files/state-files.ts";
import { absentSince } from "./missing-pods.ts";

/** Longer than the kubelet waits for a sandbox: a runtime may list it only once it is complete. */
const unknownForMs = 300_000;

/** Recorded sandboxes that the runtime no longer lists: no DEL comes. */
export class UnknownSandboxes {
  readonly #deps: Pick<EngineDeps, "runtimeSandboxes" | "clock" | "logger">;
  #absentSince: ReadonlyMap<string, number> = new Map();
  #listed: ReadonlySet<string> = new Set();
  #comparedAt = 0;
  #lastListedAt: string | undefined;
  #lastProblem: string | undefined;

  constructor(deps: Pick<EngineDeps, "runtimeSandboxes" | "clock" | "logger">) {
    this.#deps = deps;
  }

  /** Whether the record's sandbox has been missing from the lists long enough. */
  has(record: AttachmentRecord): boolean {
    const since = this.#absentSince.get(recordFileName(record));
    return since !== undefined && this.#comparedAt - since >= unknownForMs;
  }

  /** Whether a list of the last minutes has a container: it runs. */
  lists(containerId: string): boolean {
    return this.#deps.clock() - this.#comparedAt < unknownForMs && this.#listed.has(containerId);
  }

  /** Compares all records with the newest list. Never rejects. */
  async lookUp(records: readonly AttachmentRecord[]): Promise<void> {
    const list = await this.#newList();
    if (list === undefined) return;
    this.#comparedAt = this.#deps.clock();
    this.#listed = list;
    // The list contains only the kubelet's sandboxes; other callers of CNI name no pod.
    const absent = records.filter(({ pod, containerId }) => pod && !list.has(containerId));
    this.#absentSince = absentSince(this.#absentSince, absent, this.#comparedAt);
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
