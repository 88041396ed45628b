import { CniErrorCode } from "#cni/error.ts";
import type { Advice } from "#engine/explain/explanation.ts";
import type { PodName } from "#engine/ports/cluster.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { reasonRow } from "#lib/reasons.ts";
import {
  attachedAsAsked,
  definitionChanged,
  keyUnknown,
  networkAdded,
  networkRemoved,
  requestIgnored,
  statusPending,
} from "./attached.ts";
import {
  at,
  type Facts,
  isAttached,
  isDetached,
  isRunning,
  lastAdd,
  listOf,
  type Rule,
  retried,
} from "./facts.ts";
import { defaultNetworkChanged, interfaceLost, notManaged, notPlugged } from "./hot-plug.ts";
import { capitalized, couldNot, explained, fine, problem } from "./sentence.ts";

/** Concludes: the first rule that applies says what is the matter. */
export function advise(facts: Facts): Advice {
  for (const rule of rules) {
    const advice = rule(facts);
    if (advice !== undefined) return advice;
  }
  return attachedAsAsked(facts);
}

const rules: readonly Rule[] = [
  notHere,
  ofHostNetwork,
  detachFailed,
  annotationInvalid,
  addFailed,
  givenUp,
  addNotEnded,
  ended,
  nodeNotServed,
  sourceNotReady,
  notPlugged,
  interfaceLost,
  notManaged,
  defaultNetworkChanged,
  willNotStartAgain,
  unusable,
  unattached,
  networkAdded,
  statusPending,
  requestIgnored,
  keyUnknown,
  definitionChanged,
  networkRemoved,
];

function notHere({ pod, node, sourceProblem }: Facts): Advice | undefined {
  if (pod.uid === undefined) {
    if (sourceProblem !== undefined) return apiAway(sourceProblem);
    const name = `${pod.namespace}/${pod.name}`;
    return problem("PodNotFound", `There is no pod ${name}: check its name and namespace.`);
  }
  if (node.name === "" || pod.node === node.name) return undefined;
  if (pod.node === undefined) {
    return problem(
      "NotScheduled",
      "The pod is not bound to a node yet, so nothing has been asked of any network: see the scheduler's events (kubectl describe pod).",
    );
  }
  const step = `ask plexusd there, this one serves ${node.name}`;
  return problem("OtherNode", `The pod is on node ${pod.node}: ${step}.`);
}

function ofHostNetwork({ pod, annotation }: Facts): Advice | undefined {
  if (pod.hostNetwork !== true) return undefined;
  const text =
    "The pod uses the host's network (hostNetwork: true), so that no CNI plugin is called for it";
  if (annotation === undefined) return fine("HostNetwork", `${text}, and it asks for no networks.`);
  const what = "its networks annotation has no effect: remove hostNetwork or the annotation";
  return problem("HostNetwork", `${text} and ${what}.`);
}

/** For a pod that is not terminating, the failed ADD matters more than the DEL after it. */
function detachFailed({ pod, record, calls }: Facts): Advice | undefined {
  const last = calls.at(-1);
  if (lastAdd(calls)?.message !== undefined && pod.isTerminating !== true) return undefined;
  const hasFailed = last?.command === "DEL" && last.message !== undefined;
  const recorded = { message: record?.teardownError, reason: record?.teardownReason };
  const { message, ...failure } = hasFailed ? last : omitUndefined(recorded);
  if (message === undefined || (record === undefined && pod.isTerminating !== true)) {
    return undefined;
  }
  return couldNot("Could not detach", { ...failure, message }, "; the runtime retries the DEL");
}

function annotationInvalid(facts: Facts): Advice | undefined {
  const invalid = facts.problems.find(({ reason }) => reason === "InvalidAnnotation");
  if (invalid === undefined) return undefined;
  const failure = retried(facts, { ...invalid, subject: "the annotation" });
  const consequence = isRunning(facts) ? "; the pod keeps its networks until then" : "";
  return couldNot("Could not use", failure, consequence);
}

function addFailed({ calls, record, node }: Facts): Advice | undefined {
  const last = lastAdd(calls);
  if (last?.message === undefined) return undefined;
  // An earlier sandbox of the pod has a record, too; a second ADD of the same one leaves it attached.
  const isLater =
    record === undefined || (last.containerId !== record.containerId && last.at > record.createdAt);
  if (record?.teardownError === undefined && !isLater) return undefined;
  return couldNot("Could not attach", { ...last, message: last.message, ...at(node) });
}

function givenUp({ pod, replaced = 0 }: Facts): Advice | undefined {
  if (replaced === 0 || pod.phase === "Running") return undefined;
  return problem(
    "SandboxesGivenUp",
    `Plexus has attached ${replaced + 1} sandboxes of the pod, and the container runtime has given each of them up, as at a plugin that 00-plexus.conflist has after plexus: the pod's event FailedCreatePodSandBox says why.`,
  );
}

function addNotEnded({ record, networks }: Facts): Advice | undefined {
  if (record?.add === undefined) return undefined;
  if (record.add === "interrupted") {
    return problem(
      "AddInterrupted",
      `The ADD of ${record.createdAt} did not end, and has attached a part of the networks at most: the container runtime makes a new sandbox, and Plexus detaches this one.`,
    );
  }
  const waiting = networks.find(({ ifName }) => ifName === undefined);
  const what = waiting === undefined ? "" : `, and network ${waiting.network} is not attached yet`;
  return problem(
    "BeingAttached",
    `The pod is being attached since ${record.createdAt}${what}: if that takes long, ${reasonRow("PluginTimeout").step}.`,
  );
}

/** The runtime detaches a pod as soon as its last container ends, and never starts it again. */
function ended({ pod, record, calls }: Facts): Advice | undefined {
  const { phase = "" } = pod;
  const hasEnded = ["Succeeded", "Failed"].includes(phase);
  if (record !== undefined) return undefined;
  if (!hasEnded && !(pod.isTerminating === true && isDetached(calls))) return undefined;
  const how = hasEnded ? `has ended (${phase})` : "terminates and was detached";
  return fine("PodEnded", `The pod ${how}, so that it has no networks any more.`);
}

/** What to do about a state of the node's CNI configuration. */
export const confSteps: Readonly<Record<string, string>> = {
  shadowed:
    "remove that file, or give it a name that sorts after 00-plexus.conflist; if it is also the default network, new pods then wait up to a minute until plexusd takes the next file",
  missing: "find out what removes the file; plexusd writes it again",
  "foreign-rename":
    "find out what renames the file, most likely another meta-plugin; plexusd writes it again",
  waiting: "run kubectl plexus doctor and correct what it names",
};

function nodeNotServed(facts: Facts): Advice | undefined {
  const { confState, confReason = "" } = facts.node;
  if (confState === undefined || confState === "active" || isAttached(facts)) return undefined;
  const words = confState.split("-").map(capitalized);
  return problem(
    `PlexusConf${words.join("")}`,
    `The container runtime of this node does not call Plexus (${confReason}): ${confSteps[confState] ?? "run kubectl plexus doctor"}, then create the pod again if it runs.`,
  );
}

function sourceNotReady(facts: Facts): Advice | undefined {
  const { sourceProblem } = facts;
  return sourceProblem === undefined || isAttached(facts) ? undefined : apiAway(sourceProblem);
}

function apiAway(reason: string): Advice {
  return problem(
    "ApiUnavailable",
    `Pods and definitions cannot be looked up (${reason}): ${reasonRow("ApiUnavailable").hotPlugStep}.`,
  );
}

/** Problems that do not disturb a running pod, and do not end by themselves. */
function willNotStartAgain(facts: Facts): Advice | undefined {
  const { pod, problems } = facts;
  if (pod.phase !== "Running" || pod.isTerminating === true || !isAttached(facts)) return undefined;
  const lasting = problems.find(
    ({ isTolerated, code }) => isTolerated !== true && code !== CniErrorCode.TryAgainLater,
  );
  return lasting && explained("The pod runs, but will not start again", lasting);
}

/** What the next ADD would fail for. */
function unusable(facts: Facts): Advice | undefined {
  const first = facts.problems.find(({ isTolerated }) => isTolerated !== true);
  if (first === undefined || isAttached(facts)) return undefined;
  return couldNot("Cannot attach", first);
}

function unattached({ pod, record, networks, missing, calls }: Facts): Advice | undefined {
  if (record !== undefined) return undefined;
  if (pod.phase !== "Running") return notAttachedYet(pod, calls);
  const [other] = networks.flatMap(({ attachedBy }) => attachedBy ?? []);
  const started = "The pod was started before Plexus served this node";
  if (missing.length > 0) {
    const step = "delete it, so that it starts anew with its networks";
    return problem("NotAttached", `${started}, without ${missing.join(", ")}: ${step}.`);
  }
  if (other === undefined) {
    return fine("NotAttached", `${started}, and lacks nothing that it asks for.`);
  }
  const list = listOf(networks);
  return fine(
    "AttachedByOther",
    `The pod was attached by ${other}, before Plexus served this node: ${list}.`,
  );
}

/** A pod that was created again has the calls of the former one of its name. */
function notAttachedYet({ namespace, name }: PodName, calls: Facts["calls"]): Advice {
  const notAsked = "the container runtime has not asked Plexus to attach";
  const former = isDetached(calls) ? "was detached" : "has no record any more";
  const what =
    calls.length === 0
      ? capitalized(`${notAsked} the pod yet`)
      : `The last sandbox of ${namespace}/${name} ${former}, and ${notAsked} a new one yet`;
  const step = "see the pod's events (kubectl describe pod) for what it waits for";
  return problem("NotAttachedYet", `${what}: ${step}.`);
}
