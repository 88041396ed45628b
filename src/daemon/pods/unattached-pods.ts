import type { PodFindings } from "#engine/call/pod-findings.ts";
import {
  asksForNetworks,
  ignoredAnnotation,
  isInvalid,
  missingNetworks,
  notAttached,
  notAttachedGraceMs,
} from "#engine/check/not-attached.ts";
import type { Pod, PodState } from "#engine/ports/cluster.ts";
import { type RecordList, type RecordReader, recordsOf } from "#engine/ports/records.ts";
import { isOfPod } from "#engine/record/record.ts";
import type { NodePods } from "#kube/node/node.ts";
import type { Condition } from "#lib/condition.ts";

interface UnattachedPodsOptions {
  readonly nodePods: Pick<NodePods, "list" | "read">;
  readonly records: Pick<RecordReader, "list">;
  readonly findings: Pick<PodFindings, "state" | "keepOnly">;
  readonly plexusNamespace: () => string;
}

/** A pod that requests networks and has no record, or whose annotation is invalid. */
interface Observation {
  readonly since: number;
  /** The pod as the watch had delivered it when it was last read. The watch delivers each change anew. */
  readonly read?: Pod;
}

/**
 * Finds running pods of this node that request networks but have none of them. The container
 * runtime did not call Plexus for their sandboxes, as on a fresh node, or their annotation is
 * invalid, which the event of their ADD has said. A pod is read only when the watch has delivered a
 * change: many may wait for their sandboxes for long.
 */
export class UnattachedPods {
  readonly #options: UnattachedPodsOptions;
  /** By the pod's UID. */
  #observations = new Map<string, Observation>();

  constructor(options: UnattachedPodsOptions) {
    this.#options = options;
  }

  /** Call this regularly. @throws Error when a pod or the records cannot be read */
  async check(): Promise<void> {
    const { nodePods, records, findings, plexusNamespace } = this.#options;
    const pods = nodePods.list();
    findings.keepOnly(pods);
    const observations = new Map<string, Observation>();
    const listed = await records.list();
    for (const pod of pods) {
      const isAttached = isRecorded(listed, pod) && !isInvalid(pod, plexusNamespace());
      if (isAttached || !asksForNetworks(pod)) findings.state(pod, "attachment", []);
      else observations.set(pod.uid, await this.#observe(pod));
    }
    this.#observations = observations;
  }

  async #observe(pod: Pod): Promise<Observation> {
    const { nodePods, findings } = this.#options;
    const now = performance.now();
    const before = this.#observations.get(pod.uid) ?? { since: now };
    if (now < before.since + notAttachedGraceMs || pod === before.read) return before;
    const state = await nodePods.read(pod);
    findings.state(pod, "attachment", state === undefined ? [] : await this.#find(state, before));
    return { since: before.since, read: pod };
  }

  async #find(state: PodState, { since }: Observation): Promise<Condition[]> {
    const { records } = this.#options;
    const plexusNamespace = this.#options.plexusNamespace();
    // Read after the pod: one that runs was recorded before, if Plexus attached it.
    const attachment = {
      isRecorded: isRecorded(await records.list(), state),
      unrecordedForMs: performance.now() - since,
      plexusNamespace,
    };
    const missing = missingNetworks(state, attachment);
    if (missing.length > 0) return [notAttached(missing)];
    const ignored = ignoredAnnotation(state, await recordsOf(records, state), plexusNamespace);
    if (ignored === undefined) return [];
    const message = `the pod runs without the networks that it asks for: ${ignored}`;
    return [{ reason: "AnnotationIgnored", message, isQuiet: true }];
  }
}

/** Whether a sandbox of a pod of this name is recorded; a damaged record may be its. */
function isRecorded({ records, damaged }: RecordList, { namespace, name }: Pod): boolean {
  const isDamaged = damaged.some(({ mayContain }) => mayContain(JSON.stringify(name)));
  return isDamaged || records.some((record) => isOfPod(record, { namespace, name }));
}
