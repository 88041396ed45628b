import { type CniError, CniErrorCode } from "#cni/error.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import type { Condition } from "#lib/condition.ts";
import { reasonRow } from "#lib/reasons.ts";
import {
  type HotPlugProblem,
  type NamedAttachment,
  nameOf,
  next,
  problemText,
} from "./problem-texts.ts";

/** The namespace has nothing that is certainly the pod's, or only its IP addresses. */
export const wrongMac: Condition = {
  reason: "NotManaged",
  message:
    "no interface of the pod has the MAC address that its plugin reported: Plexus changes its networks only if the recorded IP addresses are there; report it to the plugin's maintainers, unless the pod changed the address",
};

/** What an attempt has found. What operations failed for has an event, and what may end by itself needs none. */
export function conditionOf(problem: HotPlugProblem): Condition {
  const { error, network, isRemoval } = problem;
  const message = problemText(problem);
  if (error.reason === "AgentUnavailable") {
    const { step } = reasonRow(error.reason);
    const what = `the annotation was edited, but ${message}`;
    return { reason: "InterfaceAddRejected", message: what, step, lacksNetworks: true };
  }
  if (isRemoval === true)
    return { reason: "FailedRemovingInterface", message, next: next.remove, isQuiet: true };
  const isInvalid = network === undefined && error.code === CniErrorCode.InvalidRequest;
  const isFailed = isRemoval === false;
  const later = isFailed ? next.add : next.refuse;
  return {
    reason: isFailed ? "FailedAddingInterface" : "InterfaceAddRejected",
    message,
    next: isInvalid ? kept(error) : later,
    lacksNetworks: true,
    isQuiet: isFailed || error.transient || error.cause instanceof HostGoneError,
  };
}

/** The network of the node is no matter of the annotation. */
function kept({ reason }: CniError): string | undefined {
  if (reason === "InvalidRequest") return undefined;
  return "the pod keeps its networks until the annotation is corrected";
}

/** It is not known who requested what the pod has. */
export function notManaged(unknown: readonly NamedAttachment[]): Condition {
  const names = unknown.map(nameOf).join(", ");
  const message = `no element of the annotation requests ${names}, and it is not known that one did: delete the pod to detach it`;
  return { reason: "NotManaged", message };
}
