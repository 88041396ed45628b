import type { Call, CallOutcome } from "#engine/call/call.ts";
import { LruMap } from "#lib/lru-map.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { Failure } from "./explain-error.ts";
import type { CallRecord } from "./explanation.ts";

/** Twice the pods that a kubelet runs by default, so that a node's are all there. */
const maxPods = 256;

const messageMax = 1000;

const notedCommands = new Set(["ADD", "DEL"]);

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

  of(pod: { readonly namespace: string; readonly name: string }): readonly CallRecord[] {
    return [...this.#pods.getOrMake(keyOf(pod), () => new Map()).values()];
  }

  /** The pods, `namespace/name`, whose last ADD failed since a time (ISO 8601), and how. */
  failedAdds(since: string): { pod: string; failure: Failure }[] {
    return [...this.#pods.entries()].flatMap(([pod, calls]) => {
      const { at, message, code, reason } = calls.get("ADD") ?? {};
      if (at === undefined || at < since || message === undefined) return [];
      return { pod, failure: omitUndefined({ message, code, reason }) };
    });
  }
}

function keyOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`;
}

function failureOf(outcome: CallOutcome): Pick<CallRecord, "code" | "reason" | "message"> {
  if (outcome.status === "succeeded") return {};
  const { code, reason, message } = outcome.error;
  return omitUndefined({ code, reason, message: message.slice(0, messageMax) });
}
