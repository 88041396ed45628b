import { type CniError, CniErrorCode, subjectPrefix, withoutSubject } from "#cni/error.ts";
import type { PlanProblem } from "#engine/plan/problems.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { reasonRow } from "#lib/reasons.ts";

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

/** An event: no agent is there that may attach networks. */
export function noAgentText({ message }: CniError): string {
  return `the annotation was edited, but ${message}: ${reasonRow("AgentUnavailable").step}`;
}

/** An event: elements that cannot be attached, or an annotation that cannot be read. */
export function rejectedText(problems: readonly HotPlugProblem[]): string {
  const isInvalid = problems.some(
    ({ network, error }) => network === undefined && error.code === CniErrorCode.InvalidRequest,
  );
  const next = isInvalid ? "the pod keeps its networks until the annotation is corrected" : again;
  return `${problemsText(problems)}; ${next}`;
}

/** An event: an attempt to plug a network failed. */
export function notPluggedText(error: CniError): string {
  return `${error.message}; ${again}`;
}

/** An event: the network that was to be replaced is attached again. */
export function swapPausedText(error: CniError): string {
  return `${error.message}; Plexus tries again soon, then in about five minutes, and at once when the element or the definition changes`;
}

/** An event: neither the new network nor the one that it was to replace can be attached. */
export function swapLostText(error: CniError, former: NamedAttachment, lost: CniError): string {
  return `${notPluggedText(error)}; ${nameOf(former)}, which it replaces, could not be attached again: ${lost.message}`;
}

/** An event: a network could not be unplugged, or what a failed attempt left is still there. */
export function notUnpluggedText(error: CniError): string {
  return `${error.message}; Plexus keeps its record and tries again with backoff`;
}

/** An event: it is not known who requested what the pod has. */
export function unknownText(unknown: readonly NamedAttachment[]): string {
  const names = unknown.map(nameOf).join(", ");
  return `no element of the annotation requests ${names}, and it is not known that one did: delete the pod to detach it`;
}

/** A network of a pod, as texts name it. */
export type NamedAttachment = Pick<RecordedAttachment, "displayName" | "ifName">;

export function nameOf({ displayName, ifName }: NamedAttachment): string {
  return `${displayName} (${ifName})`;
}
