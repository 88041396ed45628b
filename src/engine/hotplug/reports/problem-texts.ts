import { type CniError, subjectPrefix, withoutSubject } from "#cni/error.ts";
import type { PlanProblem } from "#engine/plan/problems.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";

/** Why an element of a running pod's annotation, or all of it, is not in effect. */
export interface HotPlugProblem extends PlanProblem {
  /** The interface of the element, if it is known. */
  readonly ifName?: string | undefined;
  /** Whether the network could not be detached. @default false */
  readonly isRemoval?: boolean;
}

/** What an event names: `network shop/a (net1): WHY`. */
export function problemText({ error: { message }, network, ifName }: HotPlugProblem): string {
  if (network === undefined || message.startsWith(`network ${network} (`)) return message;
  const name = ifName === undefined ? network : nameOf({ displayName: network, ifName });
  return `${subjectPrefix(name)}${withoutSubject(message, network)}`;
}

/** The problems in one line, each once. */
export function problemsText(problems: readonly HotPlugProblem[]): string {
  return [...new Set(problems.map(problemText))].join("; ");
}

const again =
  "Plexus tries again with backoff, and at once when the annotation or the definition changes";

/** What Plexus does after a failure. */
export const next = {
  add: again,
  /** The edit breaks a rule. */
  refuse: `the pod keeps its networks; ${again}`,
  /** The network, or what a failed attempt left, is still there. */
  remove: "Plexus keeps its record and tries again with backoff",
} as const;

/** An event: a network could not be plugged or unplugged. */
export function failedText(what: keyof typeof next, { message }: CniError): string {
  return `${message}; ${next[what]}`;
}

/** A network of a pod, as texts name it. */
export type NamedAttachment = Pick<RecordedAttachment, "displayName" | "ifName">;

/** A network of a pod with its interface. */
export function nameOf({ displayName, ifName }: NamedAttachment): string {
  return `${displayName} (${ifName})`;
}
