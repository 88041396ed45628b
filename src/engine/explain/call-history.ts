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
export const failedAddMs = 600_000;

interface PodHistory {
  readonly pod: CalledPod;
  /** By command, the latest last. */
  readonly calls: Map<string, CallRecord>;
  /** When its last failed ADD began; "" without one. */
  failedAt: string;
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
    const make = (): PodHistory => ({ pod, calls: new Map(), failedAt: "" });
    const history = this.#pods.getOrMake(`${nameOf(pod)} ${pod.uid}`, make);
    history.calls.delete(call.command);
    history.calls.set(call.command, call);
    if (call.command === "ADD" && call.message !== undefined) history.failedAt = call.at;
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
    const groups = new Map<string, FailedAdds>();
    for (const { pod, last } of this.#lately(now)) {
      const { at, message, subject = "", code, reason } = last;
      if (message === undefined || !isOpen(pod, at)) continue;
      const [network = ""] = subject.split(" (");
      const { finding, step } = explainError(omitUndefined({ message, code, reason }));
      const key = `${finding} ${network}`;
      const pods = [...(groups.get(key)?.pods ?? []), nameOf(pod)];
      const what = withoutSubject(message, subject);
      groups.set(key, { reason: finding, message: what, step, network, pods });
    }
    return [...groups.values()].toSorted((a, b) => b.pods.length - a.pods.length);
  }

  /** The other pods with a failed ADD in these ten minutes: attached since, or gone. */
  overcomeAdds(now: string, isOpen: IsOpen): string[] {
    return this.#lately(now)
      .filter(({ pod, last }) => last.message === undefined || !isOpen(pod, last.at))
      .map(({ pod }) => nameOf(pod));
  }

  /** The last ADD of each pod with a failed one in the ten minutes before a time. */
  #lately(now: string): { readonly pod: CalledPod; readonly last: CallRecord }[] {
    const since = new Date(Date.parse(now) - failedAddMs).toISOString();
    return [...this.#pods.entries()].flatMap(([, { pod, calls, failedAt }]) => {
      const last = calls.get("ADD");
      return last === undefined || failedAt < since ? [] : [{ pod, last }];
    });
  }
}

function nameOf({ namespace, name }: CalledPod): string {
  return `${namespace}/${name}`;
}
