import type { PodProblem } from "#daemon/admin/node-status.ts";
import {
  asksForNetworks,
  ignoredAnnotation,
  isInvalid,
  missingNetworks,
  notAttachedGraceMs,
  type PodState,
} from "#engine/check/not-attached.ts";
import type { EventRecorder, Pod } from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { type RecordReader, recordsOf } from "#engine/ports/records.ts";
import type { NodePods } from "#kube/node/node.ts";

interface UnattachedPodsOptions {
  readonly nodePods: Pick<NodePods, "list" | "read">;
  readonly records: RecordReader;
  readonly events: EventRecorder;
  readonly logger: Logger;
  readonly plexusNamespace: () => string;
  /** Milliseconds from some point in the past, monotonic. */
  readonly clock: () => number;
}

/** A pod that requests networks and has no record, or whose annotation is invalid. */
interface Observation {
  /** `namespace/name`. */
  readonly name: string;
  readonly since: number;
  readonly hasEvent: boolean;
  /** The pod as the watch had delivered it when it was last read. The watch delivers each change anew. */
  readonly read?: Pod;
  readonly missing: readonly string[];
  /** Why its annotation was ignored. */
  readonly ignored?: string | undefined;
}

/**
 * Finds running pods of this node that request networks but have none of them. The container
 * runtime did not call Plexus for their sandboxes, as on a fresh node: each gets one event. Or their
 * annotation is invalid: their ADD has sent the event. A pod is read only when the watch has
 * delivered a change: many may wait for their sandboxes for long.
 */
export class UnattachedPods {
  readonly #options: UnattachedPodsOptions;
  /** By the pod's UID. */
  #observations = new Map<string, Observation>();

  constructor(options: UnattachedPodsOptions) {
    this.#options = options;
  }

  /** How many pods of this node lack networks that they request. */
  get count(): number {
    return this.problems().length;
  }

  /** Those for which Plexus was not called, or whose annotation was ignored. */
  problems(): PodProblem[] {
    return [...this.#observations.values()].flatMap(({ name: pod, missing, ignored }) => {
      if (missing.length > 0)
        return { pod, reason: "NotAttached", problem: notAttachedText(missing) };
      if (ignored === undefined) return [];
      const problem = `runs without the networks that it asks for: ${ignored}`;
      return { pod, reason: "AnnotationIgnored", problem };
    });
  }

  /** Call this regularly. @throws Error when a pod or the records cannot be read */
  async check(): Promise<void> {
    const observations = new Map<string, Observation>();
    for (const pod of this.#options.nodePods.list()) {
      if (!asksForNetworks(pod)) continue;
      const isAttached = await this.#options.records.hasPod(pod);
      if (isAttached && !isInvalid(pod, this.#options.plexusNamespace())) continue;
      observations.set(pod.uid, await this.#observe(pod));
    }
    this.#observations = observations;
  }

  async #observe(pod: Pod): Promise<Observation> {
    const { clock, nodePods } = this.#options;
    const since = clock();
    const before = this.#observations.get(pod.uid);
    const name = `${pod.namespace}/${pod.name}`;
    if (before === undefined) return { name, since, hasEvent: false, missing: [] };
    if (since < before.since + notAttachedGraceMs || pod === before.read) return before;
    const state = await nodePods.read(pod);
    const missing = state === undefined ? [] : await this.#missing(state, before);
    const ignored = state === undefined ? undefined : await this.#ignored(state);
    if (missing.length > 0 && !before.hasEvent) this.#recordEvent(pod, missing);
    const hasEvent = before.hasEvent || missing.length > 0;
    return { name, since: before.since, hasEvent, read: pod, missing, ignored };
  }

  /** Reads the record after the pod: a pod that runs was recorded before, if Plexus attached it. */
  async #missing(state: PodState, { since }: Observation): Promise<readonly string[]> {
    const { clock, records, plexusNamespace } = this.#options;
    return missingNetworks(state, {
      isRecorded: await records.hasPod(state),
      unrecordedForMs: clock() - since,
      plexusNamespace: plexusNamespace(),
    });
  }

  /** Of a pod with a damaged record it is not known what it has. */
  async #ignored(state: PodState): Promise<string | undefined> {
    const { records, plexusNamespace } = this.#options;
    const found = await recordsOf(records, state).catch(() => undefined);
    return found && ignoredAnnotation(state, found, plexusNamespace());
  }

  #recordEvent(pod: Pod, missing: readonly string[]): void {
    const { events, logger } = this.#options;
    const networks = missing.join(", ");
    const message = `the pod ${notAttachedText(missing)} (docs/operations/fresh-nodes.md)`;
    events.record(pod, { type: "Warning", reason: "NotAttached", message });
    logger.warn({ podNamespace: pod.namespace, podName: pod.name, networks }, "pod not attached");
  }
}

function notAttachedText(networks: readonly string[]): string {
  return `runs without ${networks.join(", ")}: its sandbox was made when the container runtime did not call Plexus; delete the pod, so that it starts anew with its networks`;
}
