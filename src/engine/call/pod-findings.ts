import type { EventRecorder, PodIdentity, PodName } from "#engine/ports/cluster.ts";
import { type Condition, worstFirst } from "#lib/condition.ts";
import type { FindingReason } from "#lib/reasons.ts";

/** What looks at running pods: how they were attached, their interfaces, their namespace, hot-plug. */
type Part = "attachment" | "interfaces" | "namespace" | "networks";

/** All that one part has found about a pod. */
interface Statement {
  readonly pod: PodIdentity;
  readonly found: readonly Condition[];
  /** Of the last event. */
  readonly told: string;
}

/**
 * The one list of what is found about running pods. A part states everything that it finds about a
 * pod: what is missing from its next statement has ended. `explain`, `doctor`, `status`, the metrics
 * and the pods' events are views of it.
 */
export class PodFindings {
  readonly #events: EventRecorder;
  /** By the pod's UID and the part. */
  readonly #stated = new Map<string, Statement>();

  constructor(events: EventRecorder) {
    this.#events = events;
  }

  /** Replaces what the part has stated about the pod; other matters than before become an event. */
  state(pod: PodIdentity, part: Part, found: readonly Condition[]): void {
    const key = `${pod.uid} ${part}`;
    const told = this.#stated.get(key)?.told ?? "";
    const loud = worstFirst(found.filter(({ isQuiet }) => isQuiet !== true));
    const matter = joined(loud.map(({ message }) => message));
    if (found.length === 0) this.#stated.delete(key);
    else this.#stated.set(key, { pod, found, told: matter === "" ? told : matter });
    const [worst] = loud;
    if (worst === undefined || matter === told) return;
    const { reason } = worst;
    const message = joined([
      matter,
      ...loud.flatMap(({ step = [], next = [] }) => [step, next].flat()),
    ]);
    this.#events.record(pod, { reason, message });
  }

  /** What is found about a pod, the worst first. */
  of({ namespace, name }: PodName): Condition[] {
    const own = this.all().filter(({ pod }) => pod.namespace === namespace && pod.name === name);
    return worstFirst(own.map(({ condition }) => condition));
  }

  /** What is found about all pods. */
  all(): { readonly pod: PodIdentity; readonly condition: Condition }[] {
    return [...this.#stated.values()].flatMap(({ pod, found }) =>
      found.map((condition) => ({ pod, condition })),
    );
  }

  /** How many conditions have one of the reasons. */
  count(...reasons: readonly FindingReason[]): number {
    return this.all().filter(({ condition: { reason } }) => reasons.includes(reason)).length;
  }

  /** Call it regularly with the pods that are there: nothing is found about others. */
  keepOnly(pods: readonly PodIdentity[]): void {
    const uids = new Set(pods.map(({ uid }) => uid));
    for (const [key, { pod }] of this.#stated) if (!uids.has(pod.uid)) this.#stated.delete(key);
  }
}

/** Each part once. */
function joined(parts: readonly string[]): string {
  return [...new Set(parts)].join("; ");
}
