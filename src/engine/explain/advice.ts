import { CniErrorCode } from "#cni/error.ts";
import { unknownText } from "#engine/hotplug/reports/problem-texts.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { reasonRow } from "#lib/reasons.ts";
import { ignoredWords } from "#npwg/served-requests.ts";
import { capitalized, couldNot, explained, fine, problem } from "./advice-sentence.ts";
import type { Failure } from "./explain-error.ts";
import type { Advice, CallRecord, Explanation } from "./explanation.ts";

/** Everything of an explanation but its conclusion. */
export type Facts = Omit<Explanation, "advice"> & {
  readonly sourceProblem?: string;
  /** Networks that the running pod asks for and does not have, as nothing has attached them. */
  readonly missing: readonly string[];
  /** Whether edits of the pod's annotation change its networks while it runs. */
  readonly isHotPluggable: boolean;
  /** Networks of the running pod without their interface, a text each. */
  readonly lostInterfaces: readonly string[];
  /** Why an edit of the default-network annotation has no effect. */
  readonly defaultNetworkEdit?: string;
};

type Rule = (facts: Facts) => Advice | undefined;

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
  return problem(
    "OtherNode",
    `The pod is on node ${pod.node}: ask plexusd there, this one serves ${node.name}.`,
  );
}

function ofHostNetwork({ pod, annotation }: Facts): Advice | undefined {
  if (pod.hostNetwork !== true) return undefined;
  const text =
    "The pod uses the host's network (hostNetwork: true), so that no CNI plugin is called for it";
  if (annotation === undefined) return fine("HostNetwork", `${text}, and it asks for no networks.`);
  return problem(
    "HostNetwork",
    `${text} and its networks annotation has no effect: remove hostNetwork or the annotation.`,
  );
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
  const failure = { ...invalid, subject: "the annotation" };
  if (!isRunning(facts)) return couldNot("Could not use", failure);
  return couldNot(
    "Could not use",
    retried(facts, failure),
    "; the pod keeps its networks until then",
  );
}

/** Attached, and not by another meta-plugin alone. */
function isRunning({ pod, record }: Facts): boolean {
  return pod.phase === "Running" && pod.isTerminating !== true && record !== undefined;
}

/** A failure about the running pod, for which hot-plug may try again. */
function retried(facts: Facts, failure: Failure): Failure {
  return facts.isHotPluggable && isRunning(facts) ? { ...failure, retriedBy: "plexusd" } : failure;
}

function addFailed({ calls, record, node }: Facts): Advice | undefined {
  const last = lastAdd(calls);
  const isAttached = record !== undefined && record.teardownError === undefined;
  if (last?.message === undefined || isAttached) return undefined;
  return couldNot("Could not attach", { ...last, message: last.message, ...at(node) });
}

function at({ name }: Facts["node"]): Pick<Failure, "node"> {
  return name === "" ? {} : { node: name };
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

function lastAdd(calls: readonly CallRecord[]): CallRecord | undefined {
  return calls.find(({ command }) => command === "ADD");
}

/** The runtime detaches a pod as soon as its last container ends, and never starts it again. */
function ended({ pod: { phase = "" }, record }: Facts): Advice | undefined {
  if (record !== undefined || !["Succeeded", "Failed"].includes(phase)) return undefined;
  return fine("PodEnded", `The pod has ended (${phase}), so that it has no networks any more.`);
}

const confSteps: Readonly<Record<string, string>> = {
  shadowed: "remove that file, or give it a name that sorts after ours",
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

/** By Plexus, or by another meta-plugin before it. */
function isAttached({ record, networks }: Facts): boolean {
  return record !== undefined || networks.some(({ attachedBy }) => attachedBy !== undefined);
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

function unattached({ pod, record, networks, missing }: Facts): Advice | undefined {
  if (record !== undefined) return undefined;
  if (pod.phase !== "Running") {
    return problem(
      "NotAttachedYet",
      "The container runtime has not asked Plexus to attach the pod yet: see the pod's events (kubectl describe pod) for what it waits for.",
    );
  }
  const [other] = networks.flatMap(({ attachedBy }) => attachedBy ?? []);
  if (missing.length === 0 && other !== undefined) {
    return fine(
      "AttachedByOther",
      `The pod was attached by ${other}, before Plexus served this node: ${listOf(networks)}.`,
    );
  }
  if (missing.length === 0) {
    return fine(
      "NotAttached",
      "The pod was started before Plexus served this node, and lacks nothing that it asks for.",
    );
  }
  return problem(
    "NotAttached",
    `The pod was started before Plexus served this node, without ${missing.join(", ")}: delete it, so that it starts anew with its networks.`,
  );
}

/** What the last attempt of hot-plug could not do, or what the next one is to do. */
function notPlugged(facts: Facts): Advice | undefined {
  const { networks, hotPlug: { state, problems = [] } = {} } = facts;
  if (!isRunning(facts)) return undefined;
  const next = nextAttempt(facts);
  const changes = networks.flatMap(({ network, ifName, pending }) => {
    if (pending === undefined || pending.change === "unmanaged") return [];
    return { ...pending, name: ifName === undefined ? network : `${network} (${ifName})` };
  });
  const general = problems.find(({ network }) => network === undefined);
  if (general !== undefined && (changes.length > 0 || state !== "busy")) {
    return couldNot("Could not change the networks of", { ...general, retriedBy: "plexusd" }, next);
  }
  const failed = changes.find(({ failure }) => failure !== undefined) ?? changes[0];
  if (failed === undefined) return undefined;
  const { change, name, failure, isPaused } = failed;
  if (failure === undefined) {
    const done = change === "plug" ? "plugged" : "unplugged";
    return problem("HotPlugPending", `Network ${name} is not ${done} yet${next}.`);
  }
  const later = isPaused === true ? "; plexusd tries again in some minutes" : next;
  const shown = { subject: name, ...failure, ...at(facts.node), retriedBy: "plexusd" } as const;
  return couldNot(`Could not ${change}`, shown, later);
}

function nextAttempt({ hotPlug }: Facts): string {
  const { nextMs, at } = hotPlug ?? {};
  if (at === undefined) return "; plexusd has not compared the pod with its annotation yet";
  if (nextMs === undefined) return "";
  return nextMs <= 0
    ? "; plexusd is trying again now"
    : `; plexusd tries again in ${Math.ceil(nextMs / 1000)} s`;
}

function interfaceLost(facts: Facts): Advice | undefined {
  const { lostInterfaces } = facts;
  if (lostInterfaces.length === 0 || !isRunning(facts)) return undefined;
  return problem("InterfaceLost", `${capitalized(lostInterfaces.join("; "))}.`);
}

function notManaged({ networks, isHotPluggable }: Facts): Advice | undefined {
  const unmanaged = networks.filter(({ pending }) => pending?.change === "unmanaged");
  if (!isHotPluggable || unmanaged.length === 0) return undefined;
  const names = unmanaged.map(({ network, ifName = "" }) => ({ displayName: network, ifName }));
  return problem("NotManaged", `${capitalized(unknownText(names))}.`);
}

function defaultNetworkChanged({ defaultNetworkEdit: edit }: Facts): Advice | undefined {
  return edit === undefined ? undefined : problem("AnnotationChanged", `${capitalized(edit)}.`);
}

function networkAdded({ networks }: Facts): Advice | undefined {
  const added = networks.find(({ ifName }) => ifName === undefined);
  if (added === undefined) return undefined;
  return problem(
    "AnnotationChanged",
    `The pod was attached without network ${added.network}, which the annotation or the configuration names since then: networks are attached when a pod starts, so create it again.`,
  );
}

function statusPending({ record }: Facts): Advice | undefined {
  if (record?.pendingStatus !== true) return undefined;
  return problem(
    "StatusPending",
    "All networks are attached, but the network-status annotation could not be written yet: see whether this node reaches the API server; it is written as soon as that answers.",
  );
}

function requestIgnored({ networks }: Facts): Advice | undefined {
  const list = networks.flatMap(({ network, ignored = [] }) =>
    ignored.length === 0 ? [] : `${network} ${ignoredWords(ignored)}`,
  );
  if (list.length === 0) return undefined;
  return problem(
    "IgnoredRequest",
    `All networks are attached, but not as the pod asks (ignoredRequests: warn): ${list.join("; ")}. Use a plugin that supports the key, or remove the key from the annotation.`,
  );
}

function keyUnknown(facts: Facts): Advice | undefined {
  const unknown = facts.problems.find(({ reason }) => reason === "UnknownKey");
  if (unknown === undefined) return undefined;
  const what = "All networks are attached, but not as the annotation says";
  return explained(what, retried(facts, unknown));
}

function definitionChanged({ networks, pod, isHotPluggable }: Facts): Advice | undefined {
  const outdated = networks.find(({ isOutdated }) => isOutdated === true);
  if (outdated === undefined) return undefined;
  const refresh = `run plexusctl refresh ${pod.namespace}/${pod.name} ${outdated.ifName}, which interrupts this network, or `;
  return fine(
    "DefinitionChanged",
    `All networks are attached: ${listOf(networks)}. The definition of ${outdated.network} has changed since: to apply it, ${isHotPluggable ? refresh : ""}create the pod again.`,
  );
}

/** Without hot-plug, which would unplug the network. */
function networkRemoved({ networks }: Facts): Advice | undefined {
  const removed = networks.find(({ isUnrequested }) => isUnrequested === true);
  if (removed === undefined) return undefined;
  return fine(
    "AnnotationChanged",
    `All networks are attached: ${listOf(networks)}. Neither annotation nor configuration name ${removed.network} (${removed.ifName}) any more: to detach it, create the pod again.`,
  );
}

function attachedAsAsked({ networks, annotation }: Facts): Advice {
  if (annotation === undefined && networks.length <= 1) {
    return fine(
      "NothingRequested",
      "The default network is attached; the pod asks for no other (it has no annotation k8s.v1.cni.cncf.io/networks).",
    );
  }
  return fine("Attached", `All networks are attached: ${listOf(networks)}.`);
}

/** Another meta-plugin may not have attached all, or not say how it did. */
function listOf(networks: Facts["networks"]): string {
  const attached = networks.filter(({ ifName }) => ifName !== undefined);
  return attached.map(({ ifName, network }) => `${ifName}=${network}`).join(", ");
}
