import type { Call, CallOutcome } from "#engine/call/call.ts";
import type { PodName } from "#engine/ports/cluster.ts";
import { LruMap } from "#lib/lru-map.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { explainError, type Failure } from "./explain-error.ts";
import type { CallRecord } from "./explanation.ts";

/** Twice the pods that a kubelet runs by default, so that a node's are all there. */
const maxPods = 256;

const messageMax = 1000;

const notedCommands = new Set(["ADD", "DEL"]);

/** Pods that `undeclaredRequests` or `ignoredRequests` prevent from starting. */
export interface RefusedRequests {
  readonly finding: string;
  readonly step: string;
  /** `namespace/name` of each. */
  readonly pods: readonly string[];
}

const findings: ReadonlySet<string> = new Set(["UndeclaredRequest", "IgnoredRequest"]);

const currentMs = 600_000;

/** The last ADD and the last DEL of each pod, for those who ask what became of it. */
export class CallHistory {
  readonly #pods = new LruMap<Map<string, CallRecord>>(maxPods);

  /** Notes how an ADD or a DEL of a pod ended, at a time (ISO 8601). */
  note(call: Call, outcome: CallOutcome, at: string): void {
    const { command, pod } = call;
    if (pod === undefined || !notedCommands.has(command)) return;
    const calls = this.#pods.getOrMake(keyOf(pod), () => new Map());
    calls.delete(command);
    calls.set(command, { command, at, ...failureOf(outcome) });
  }

  of(pod: PodName): readonly CallRecord[] {
    return [...this.#pods.getOrMake(keyOf(pod), () => new Map()).values()];
  }

  /**
   * The pods that `undeclaredRequests` or `ignoredRequests` prevent from starting at a time (ISO
   * 8601), by finding: a kubelet tries again within seconds, so that an ADD of ten minutes ago is of
   * a pod that is gone or has started.
   */
  refusedRequests(now: string): RefusedRequests[] {
    const since = new Date(Date.parse(now) - currentMs).toISOString();
    const refused = [...this.#pods.entries()].flatMap(([pod, calls]) => {
      const { at = "", message, code, reason } = calls.get("ADD") ?? {};
      if (at < since || message === undefined) return [];
      return { pod, ...explainError(omitUndefined({ message, code, reason })) };
    });
    const byFinding = Map.groupBy(refused, ({ finding }) => finding);
    return [...byFinding].flatMap(([finding, pods]) => {
      const step = pods[0]?.step ?? "";
      return findings.has(finding) ? { finding, step, pods: pods.map(({ pod }) => pod) } : [];
    });
  }
}

function keyOf({ namespace, name }: PodName): string {
  return `${namespace}/${name}`;
}

function failureOf(outcome: CallOutcome): Partial<Failure> {
  if (outcome.status === "succeeded") return {};
  const { code, reason, subject, text } = outcome.error;
  return omitUndefined({ code, reason, subject, message: text.slice(0, messageMax) });
}
