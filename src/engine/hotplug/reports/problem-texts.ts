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
function problemText({ error: { message }, network, ifName }: HotPlugProblem): string {
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

/** An event: the namespace has nothing that is certainly the pod's, or only its IP addresses. */
export const wrongMacText =
  "no interface of the pod has the MAC address that its plugin reported: Plexus changes its networks only if the recorded IP addresses are there; report it to the plugin's maintainers, unless the pod changed the address";

/** An event: elements that cannot be attached, or an annotation that cannot be read. */
export function rejectedText(problems: readonly HotPlugProblem[]): string {
  const isInvalid = problems.some(
    ({ network, error }) => network === undefined && error.code === CniErrorCode.InvalidRequest,
  );
  const end = isInvalid ? "the pod keeps its networks until the annotation is corrected" : again;
  return `${problemsText(problems)}; ${end}`;
}

/** What Plexus does after a failure. */
const next = {
  add: again,
  /** The network that was to be replaced is attached again. */
  swap: "Plexus tries again soon, then in about five minutes, and at once when the element or the definition changes",
  /** The network, or what a failed attempt left, is still there. */
  remove: "Plexus keeps its record and tries again with backoff",
} as const;

/** An event: a network could not be plugged, take the place of another one, or be unplugged. */
export function failedText(what: keyof typeof next, { message }: CniError): string {
  return `${message}; ${next[what]}`;
}

/** An event: neither the new network nor the one that it was to replace can be attached. */
export function swapLostText(error: CniError, former: NamedAttachment, lost: CniError): string {
  return `${failedText("add", error)}; ${nameOf(former)}, which it replaces, could not be attached again: ${lost.message}`;
}

/** An event: it is not known who requested what the pod has. */
export function unknownText(unknown: readonly NamedAttachment[]): string {
  const names = unknown.map(nameOf).join(", ");
  return `no element of the annotation requests ${names}, and it is not known that one did: delete the pod to detach it`;
}

/** A network of a pod, as texts name it. */
export type NamedAttachment = Pick<RecordedAttachment, "displayName" | "ifName">;

/** A network of a pod with its interface. */
export function nameOf({ displayName, ifName }: NamedAttachment): string {
  return `${displayName} (${ifName})`;
}
