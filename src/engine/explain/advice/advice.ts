import { CniErrorCode } from "#cni/error.ts";
import { notAttached } from "#engine/check/not-attached.ts";
import type { PodName } from "#engine/ports/cluster.ts";
import { type Condition, isFine } from "#lib/condition.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { reasonRow } from "#lib/reasons.ts";
import {
  attachedAsAsked,
  attachedUnknown,
  clusterShadowed,
  definitionChanged,
  keyUnknown,
  networkAdded,
  networksDiffer,
  requestIgnored,
  statusPending,
} from "./attached.ts";
import {
  type Facts,
  isAttached,
  isDetached,
  isRunning,
  lastAdd,
  listOf,
  type Rule,
} from "./facts.ts";
import { notPlugged, stated } from "./hot-plug.ts";
import { capitalized, couldNot, explained } from "./sentence.ts";

/** Concludes: the first rule that applies says what is the matter, as `explain` prints it. */
export function advise(facts: Facts): Condition {
  for (const rule of rules) {
    const found = rule(facts);
    if (found !== undefined) return found;
  }
  return attachedAsAsked(facts);
}

const rules: readonly Rule[] = [
  notHere,
  ofHostNetwork,
  detachFailed,
  terminating,
  annotationInvalid,
  linkMissing,
  addFailed,
  givenUp,
  addNotEnded,
  ended,
  nodeNotServed,
  sourceNotReady,
  notPlugged,
  stated,
  unusable,
  unattached,
  networkAdded,
  statusPending,
  requestIgnored,
  keyUnknown,
  clusterShadowed,
  definitionChanged,
  networksDiffer,
];

function notHere({ pod, node, sourceProblem }: Facts): Condition | undefined {
  if (pod.uid === undefined) {
    if (sourceProblem !== undefined) return apiAway(sourceProblem);
    const name = `${pod.namespace}/${pod.name}`;
    const message = `There is no pod ${name}: check its name and namespace`;
    return { reason: "PodNotFound", message };
  }
  if (node.name === "" || pod.node === node.name) return undefined;
  if (pod.node === undefined) {
    const message =
      "The pod is not bound to a node yet, so nothing has been asked of any network: see the scheduler's events (kubectl describe pod)";
    return { reason: "NotScheduled", message };
  }
  const step = `ask plexusd there, this one serves ${node.name}`;
  return { reason: "OtherNode", message: `The pod is on node ${pod.node}: ${step}` };
}

function ofHostNetwork({ pod, annotation }: Facts): Condition | undefined {
  if (pod.hostNetwork !== true) return undefined;
  const text =
    "The pod uses the host's network (hostNetwork: true), so that no CNI plugin is called for it";
  if (annotation === undefined)
    return { reason: "HostNetwork", message: `${text}, and it asks for no networks` };
  const what = "its networks annotation has no effect: remove hostNetwork or the annotation";
  return { reason: "HostNetwork", message: `${text} and ${what}`, lacksNetworks: true };
}

/**
 * For a pod that is not terminating, the failed ADD matters more than the DEL after it. What is left of a former
 * sandbox is no lack of the present one: doctor names it.
 */
function detachFailed({ pod, record, calls }: Facts): Condition | undefined {
  const last = calls.at(-1);
  if (lastAdd(calls)?.message !== undefined && pod.isTerminating !== true) return undefined;
  const isOfRecord = record === undefined || last?.containerId === record.containerId;
  const hasFailed = isOfRecord && last?.command === "DEL" && last.message !== undefined;
  const recorded = { message: record?.teardownError, reason: record?.teardownReason };
  const { message, ...failure } = hasFailed ? last : omitUndefined(recorded);
  if (message === undefined || (record === undefined && pod.isTerminating !== true)) {
    return undefined;
  }
  const found = couldNot(
    "Could not detach",
    { ...failure, message },
    "the runtime retries the DEL",
  );
  return { ...found, lacksNetworks: false };
}

/** Neither its annotation nor its definitions matter any more. */
function terminating(facts: Facts): Condition | undefined {
  const { pod, record } = facts;
  const isLast = pod.isTerminating === true && record !== undefined && record.add === undefined;
  return isLast ? attachedAsAsked(facts) : undefined;
}

function annotationInvalid(facts: Facts): Condition | undefined {
  const invalid = facts.problems.find(({ reason }) => reason === "InvalidAnnotation");
  if (invalid === undefined) return undefined;
  const failure = { ...invalid, subject: "the annotation" };
  const consequence = isRunning(facts) ? "the pod keeps its networks until then" : undefined;
  return couldNot("Could not use", failure, consequence);
}

/** Before the plugin's own error, which says less. */
function linkMissing(facts: Facts): Condition | undefined {
  const missing = facts.problems.find(({ reason }) => reason === "MasterMissing");
  if (missing === undefined || missing.isTolerated === true || isAttached(facts)) return undefined;
  return couldNot("Cannot attach", missing);
}

function addFailed({ calls, record, node }: Facts): Condition | undefined {
  const last = lastAdd(calls);
  if (last?.message === undefined) return undefined;
  // An earlier sandbox of the pod has a record, too; a second ADD of the same one leaves it attached.
  const isLater =
    record === undefined || (last.containerId !== record.containerId && last.at > record.createdAt);
  if (record?.teardownError === undefined && !isLater) return undefined;
  return couldNot("Could not attach", { ...last, message: last.message, node: node.name });
}

function givenUp({ pod, replaced = 0 }: Facts): Condition | undefined {
  if (replaced === 0 || pod.phase === "Running") return undefined;
  const message = `Plexus has attached ${replaced + 1} sandboxes of the pod, and the container runtime has given each of them up, as at a plugin that 00-plexus.conflist has after plexus: the pod's event FailedCreatePodSandBox says why`;
  return { reason: "SandboxesGivenUp", message };
}

function addNotEnded({ record, networks }: Facts): Condition | undefined {
  if (record?.add === undefined) return undefined;
  if (record.add === "interrupted") {
    const message = `The ADD of ${record.createdAt} did not end, and has attached a part of the networks at most: the container runtime makes a new sandbox, and Plexus detaches this one`;
    return { reason: "AddInterrupted", message };
  }
  const waiting = networks.find(({ ifName }) => ifName === undefined);
  const what = waiting === undefined ? "" : `, and network ${waiting.network} is not attached yet`;
  const message = `The pod is being attached since ${record.createdAt}${what}: if that takes long, ${reasonRow("PluginTimeout").step}`;
  return { reason: "BeingAttached", message };
}

/** The runtime detaches a pod as soon as its last container ends, and never starts it again. */
function ended({ pod, record, calls }: Facts): Condition | undefined {
  const { phase = "" } = pod;
  const hasEnded = ["Succeeded", "Failed"].includes(phase);
  if (record !== undefined) return undefined;
  if (!hasEnded && !(pod.isTerminating === true && isDetached(calls))) return undefined;
  const how = hasEnded ? `has ended (${phase})` : "terminates and was detached";
  return { reason: "PodEnded", message: `The pod ${how}, so that it has no networks any more` };
}

const defaultStep = "run kubectl plexus doctor and correct what it names";

function nodeNotServed(facts: Facts): Condition | undefined {
  const { conf } = facts.node;
  if (conf === undefined || isFine(conf) || isAttached(facts)) return undefined;
  const { reason, message, step = defaultStep, next } = conf;
  const why = next === undefined ? message : `${message}; ${next}`;
  const text = `The container runtime of this node does not call Plexus (${why}): ${step}`;
  return { reason, message: `${text}, then create the pod again if it runs` };
}

function sourceNotReady(facts: Facts): Condition | undefined {
  const { sourceProblem } = facts;
  return sourceProblem === undefined || isAttached(facts) ? undefined : apiAway(sourceProblem);
}

function apiAway(reason: string): Condition {
  const message = `Pods and definitions cannot be looked up (${reason}): ${reasonRow("ApiUnavailable").step}`;
  return { reason: "ApiUnavailable", message };
}

/** What the next ADD would fail for; of a running pod, only what does not end by itself. */
function unusable(facts: Facts): Condition | undefined {
  const { pod } = facts;
  const problems = facts.problems.filter(({ isTolerated }) => isTolerated !== true);
  if (!isAttached(facts)) return problems[0] && couldNot("Cannot attach", problems[0]);
  if (pod.phase !== "Running" || pod.isTerminating === true) return undefined;
  const lasting = problems.find(({ code }) => code !== CniErrorCode.TryAgainLater);
  return lasting && explained("The pod runs, but will not start again", lasting);
}

function unattached(facts: Facts): Condition | undefined {
  const { pod, record, networks, missing, calls, damagedRecord, hasAddress } = facts;
  if (record !== undefined) return undefined;
  const wasAttached = lastAdd(calls)?.message === undefined && calls.at(-1)?.command === "ADD";
  const lost = damagedRecord ?? (wasAttached ? "its record is gone" : undefined);
  if (lost !== undefined) return attachedUnknown(lost);
  const isDown = pod.phase !== "Running" || !hasAddress;
  // Its ADD and the DEL after it succeeded, whatever phase and addresses the pod keeps.
  if (isDown || lastAdd(calls) !== undefined) return notAttachedYet(pod, calls);
  if (missing.length > 0) return notAttached(missing);
  const [other] = networks.flatMap(({ attachedBy }) => attachedBy ?? []);
  if (other === undefined) {
    const message =
      "The pod was started before Plexus served this node, and lacks nothing that it asks for";
    return { reason: "NothingRequested", message };
  }
  const list = listOf(networks);
  const message = `The pod was attached by ${other}, before Plexus served this node: ${list}`;
  return { reason: "AttachedByOther", message };
}

/** A pod that was created again has the calls of the former one of its name. */
function notAttachedYet({ namespace, name }: PodName, calls: Facts["calls"]): Condition {
  const notAsked = "the container runtime has not asked Plexus to attach";
  const former = isDetached(calls) ? "was detached" : "has no record any more";
  const what =
    calls.length === 0
      ? capitalized(`${notAsked} the pod yet`)
      : `The last sandbox of ${namespace}/${name} ${former}, and ${notAsked} a new one yet`;
  const step = "see the pod's events (kubectl describe pod) for what it waits for";
  return { reason: "NotAttachedYet", message: `${what}: ${step}` };
}
