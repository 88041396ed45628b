import { CniErrorCode, subjectPrefix, withoutSubject } from "#cni/error.ts";
import type { PlanProblem } from "#engine/plan/problems.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import type { Condition } from "#lib/condition.ts";
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

/** The namespace has nothing that is certainly the pod's, or only its IP addresses. */
export const wrongMac: Condition = {
  reason: "NotManaged",
  message:
    "no interface of the pod has the MAC address that its plugin reported: Plexus changes its networks only if the recorded IP addresses are there; report it to the plugin's maintainers, unless the pod changed the address",
};

const again =
  "Plexus tries again with backoff, and at once when the annotation or the definition changes";

/** What an attempt has found. What stopped all of it, and may end by itself, needs no event. */
export function conditionOf(problem: HotPlugProblem): Condition {
  const { error, network, isRemoval } = problem;
  const message = problemText(problem);
  if (error.reason === "AgentUnavailable") {
    const { step } = reasonRow(error.reason);
    const what = `the annotation was edited, but ${message}`;
    return { reason: "InterfaceAddRejected", message: what, step, lacksNetworks: true };
  }
  if (isRemoval === true) {
    const next = "Plexus keeps its record and tries again with backoff";
    return { reason: "FailedRemovingInterface", message, next };
  }
  if (isRemoval === false)
    return { reason: "FailedAddingInterface", message, next: again, lacksNetworks: true };
  const isInvalid = network === undefined && error.code === CniErrorCode.InvalidRequest;
  // No edit changes the network of the node.
  const isOfNode = error.reason === "InvalidRequest";
  const until = isOfNode
    ? undefined
    : "the pod keeps its networks until the annotation is corrected";
  const next = isInvalid ? until : `the pod keeps its networks; ${again}`;
  const isQuiet = error.transient || error.cause instanceof HostGoneError;
  return { reason: "InterfaceAddRejected", message, next, lacksNetworks: true, isQuiet };
}

/** Without hot-plug, the DEL of the pod detaches what is left. */
export const switchOn = "switch hotPlug on again for the pod, or delete it";

/** An earlier attempt could not detach a network, and hot-plug is off now. */
export function notUnplugged(network: NamedAttachment): Condition {
  const message = `${nameOf(network)} is not unplugged`;
  return { reason: "FailedRemovingInterface", message, step: switchOn };
}

/** A network of a pod, as texts name it. */
export type NamedAttachment = Pick<RecordedAttachment, "displayName" | "ifName">;

/** A network of a pod with its interface. */
function nameOf({ displayName, ifName }: NamedAttachment): string {
  return `${displayName} (${ifName})`;
}
