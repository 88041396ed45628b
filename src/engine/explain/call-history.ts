import { type CniError, withoutSubject } from "#cni/error.ts";
import type { Call, CallOutcome } from "#engine/ports/call.ts";
import type { CalledPod } from "#engine/ports/cluster.ts";
import { isOf, type NamedPod } from "#engine/ports/pod-identity.ts";
import type { Condition } from "#lib/condition.ts";
import { LruMap } from "#lib/lru-map.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { explainError } from "./explain-error.ts";
import type { CallRecord } from "./explanation.ts";

/** Twice the pods that a kubelet runs by default, so that a node's are all there. */
const maxPods = 256;

const messageMax = 1000;

/** Pods that could not be attached lately, for one reason and network: the latest one's message; NODE is the node. */
export interface FailedAdds extends Condition {
  /** "" where it concerns the whole pod. */
  readonly network: string;
  /** `namespace/name` of each. */
  readonly pods: readonly string[];
}

/** Whether a failed ADD of a pod, which began at this time, still matters. */
export type IsOpen = (pod: CalledPod, began: string) => boolean;

/** For how long a failed ADD is reported. */
const failedAddMs = 600_000;

interface PodHistory {
  readonly pod: CalledPod;
  /** By command, the latest last. */
  readonly calls: Map<string, CallRecord>;
}

/** The last ADD and the last DEL of each pod, for those who ask what became of it. */
export class CallHistory {
  readonly #pods = new LruMap<PodHistory>(maxPods);

  /** Notes how an ADD or a DEL of a pod ended that began at a time (ISO 8601). */
  note({ command, containerId, pod }: Call, outcome: CallOutcome, at: string): void {
    if (pod === undefined || !["ADD", "DEL"].includes(command)) return;
    const error = outcome.status === "failed" ? outcome.error : undefined;
    const message = error?.text.slice(0, messageMax);
    const { code, reason, subject }: Partial<CniError> = error ?? {};
    this.add(pod, omitUndefined({ command, containerId, at, code, reason, subject, message }));
  }

  add(pod: CalledPod, call: CallRecord): void {
    const make = (): PodHistory => ({ pod, calls: new Map() });
    const history = this.#pods.getOrMake(`${nameOf(pod)} ${pod.uid}`, make);
    history.calls.delete(call.command);
    history.calls.set(call.command, call);
  }

  /** The calls for a pod, not for an earlier one of its name, as far as the runtime has told UIDs. */
  of(pod: NamedPod): readonly CallRecord[] {
    const known = Array.from(this.#pods.entries(), ([, history]) => history);
    return [...(known.findLast((each) => isOf(each.pod, pod))?.calls.values() ?? [])];
  }

  /**
   * The pods whose last ADD failed in the ten minutes before a time (ISO 8601), by reason and network,
   * most pods first: a kubelet tries again within seconds.
   */
  failedAdds(now: string, isOpen: IsOpen): FailedAdds[] {
    const since = new Date(Date.parse(now) - failedAddMs).toISOString();
    const groups = new Map<string, FailedAdds>();
    for (const [, { pod, calls }] of this.#pods.entries()) {
      const last = calls.get("ADD");
      if (last?.message === undefined || last.at < since || !isOpen(pod, last.at)) continue;
      const { message, subject = "", code, reason } = last;
      const [network = ""] = subject.split(" (");
      const { finding, step } = explainError(omitUndefined({ message, code, reason }));
      const key = `${finding} ${network}`;
      const pods = [...(groups.get(key)?.pods ?? []), nameOf(pod)];
      const what = withoutSubject(message, subject);
      groups.set(key, { reason: finding, message: what, step, network, pods });
    }
    return [...groups.values()].toSorted((a, b) => b.pods.length - a.pods.length);
  }
}

function nameOf({ namespace, name }: CalledPod): string {
  return `${namespace}/${name}`;
}
