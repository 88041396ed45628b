import type { PodChanges } from "#engine/hotplug/desired-networks.ts";
import type { HotPlugProblem } from "#engine/hotplug/reports/conditions.ts";
import type { LastAttempt } from "#engine/hotplug/reports/outcome.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { explainedProblem, type PendingChange } from "./explanation.ts";

/** What hot-plug has to change of a running pod, with the reasons that its last attempt found. */
export class PendingChanges {
  readonly #changes: PodChanges;
  readonly #problems: readonly HotPlugProblem[];

  constructor(changes: PodChanges, { problems = [] }: Partial<LastAttempt> = {}) {
    this.#changes = changes;
    this.#problems = problems;
  }

  /** Whether an attachment is to go, or has to come anew. */
  isRemoved(recorded: RecordedAttachment | undefined): boolean {
    return this.#changes.removals.some((each) => each === recorded);
  }

  /** Of a network that the pod is to get; undefined if no element of the annotation requests it. */
  ofElement(network: string, ifName?: string): PendingChange | undefined {
    const isAdded = this.#changes.additions.some(
      ({ selection }) => `${selection.namespace}/${selection.name}` === network,
    );
    if (!isAdded) return undefined;
    const found = this.#problems.find(
      (each) => each.isRemoval !== true && isAbout(each, network, ifName),
    );
    const failure = found && explainedProblem(found);
    return omitUndefined({ change: "plug" as const, failure });
  }

  /** Of an attachment that no element of the annotation requests with its present settings. */
  ofAttachment(recorded: RecordedAttachment): PendingChange | undefined {
    if (this.#changes.unknown.includes(recorded)) return { change: "unmanaged" };
    if (!this.isRemoved(recorded)) return undefined;
    const { displayName, ifName, state, teardown } = recorded;
    if (teardown !== undefined) {
      const { firstFailedAt: failingSince, attempts, lastError: message, reason } = teardown;
      const failure = omitUndefined({ message, reason });
      return { change: "unplug", state, failure, failingSince, attempts };
    }
    const found = this.#problems.find(
      (each) =>
        (each.isRemoval === true || each.ifName !== undefined) &&
        isAbout(each, displayName, ifName),
    );
    const isWrong = this.#problems.some(({ isRemoval }) => isRemoval !== true);
    const isKept = (state === "attached" && isWrong) || undefined;
    const failure = found && explainedProblem(found);
    return omitUndefined({ change: "unplug" as const, state, isKept, failure });
  }
}

/** Names of interfaces count only if both are known. */
function isAbout(
  { network, ifName }: HotPlugProblem,
  name: string,
  ownIfName: string | undefined,
): boolean {
  const isSameInterface = ifName === undefined || ownIfName === undefined || ifName === ownIfName;
  return network === name && isSameInterface;
}
