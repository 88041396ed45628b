import { CniError } from "#cni/error.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { LruMap } from "#lib/lru-map.ts";
import { selectionElement } from "#npwg/selection/network-selection.ts";
import { type NamedAttachment, nameOf } from "./reports/problem-texts.ts";

/** Far more than have failed swaps at a time. */
const maxPods = 1000;
/** Below the longest pause of a pod's attempts, so that one of two interrupts it at most. */
const pauseMs = 240_000;

interface FailedSwap {
  readonly network: string;
  readonly problem: FailedSwapError;
  /** Until when it is not tried again, by the clock. */
  readonly until: number;
}

/** A network could not take the place of one that works, which pods' events have said. */
export class FailedSwapError extends CniError {
  override readonly name = "FailedSwapError";

  /** @param former what came back */
  constructor(error: CniError, former: NamedAttachment) {
    const { code, reason, details, subject } = error;
    const options = { reason, details, subject, cause: error };
    super(code, `${error.message}; ${nameOf(former)} is attached again as before`, options);
  }
}

/**
 * Networks that could not replace a working one, which then came back. Each attempt interrupts
 * the working one. So after two failures in a row, the next attempt waits for some minutes, or for
 * another element or definition.
 */
export class FailedSwaps {
  /** By the pod's UID, then by the interface. */
  readonly #failed = new LruMap<Map<string, FailedSwap>>(maxPods);
  readonly #clock: () => number;

  /** @param clock milliseconds, monotonic */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  note(pod: Pick<Pod, "uid">, planned: PlannedAttachment, problem: FailedSwapError): void {
    const failed = this.#failed.getOrMake(pod.uid, () => new Map());
    const network = identityOf(planned);
    const isRepeated = failed.get(planned.ifName)?.network === network;
    const until = this.#clock() + (isRepeated ? pauseMs : 0);
    failed.set(planned.ifName, { network, problem, until });
  }

  /** @throws FailedSwapError when the network has just failed to replace an attached one */
  refuse(
    pod: Pick<Pod, "uid">,
    planned: PlannedAttachment,
    replaced: RecordedAttachment | undefined,
  ): void {
    const failed = this.#failed.peek(pod.uid)?.get(planned.ifName);
    if (replaced?.state !== "attached" || failed?.network !== identityOf(planned)) return;
    if (this.#clock() >= failed.until) return;
    throw failed.problem;
  }

  /** Somebody wants another attempt. */
  forget({ uid }: Pick<Pod, "uid">): void {
    this.#failed.delete(uid);
  }
}

function identityOf({ selection, definition }: PlannedAttachment): string {
  return JSON.stringify([selection && selectionElement(selection), definition]);
}
