import { omitUndefined } from "#lib/omit-undefined.ts";
import { ignoredWords } from "#npwg/served-requests.ts";
import { explainError } from "./explain-error.ts";
import type { Advice, CallRecord, Explanation } from "./explanation.ts";

/** Everything of an explanation but its conclusion. */
export type Facts = Omit<Explanation, "advice"> & {
  readonly sourceProblem?: string;
  /** Networks that the running pod asks for and does not have, as nothing has attached them. */
  readonly missing: readonly string[];
};

type Rule = (facts: Facts) => Advice | undefined;

const quotedMax = 300;

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
  nodeNotServed,
  sourceNotReady,
  unusable,
  unattached,
  annotationChanged,
  statusPending,
  requestIgnored,
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
  const { finding, step } = explainError({ ...failure, message });
  return problem(
    finding,
    `The pod could not be detached (${quoted(message)}): ${step}; the DEL is repeated.`,
  );
}

function annotationInvalid({ problems }: Facts): Advice | undefined {
  const invalid = problems.find(({ reason }) => reason === "InvalidAnnotation");
  if (invalid === undefined) return undefined;
  const { finding, step } = explainError(invalid);
  return problem(finding, `The annotation cannot be used (${quoted(invalid.message)}): ${step}.`);
}

function addFailed({ calls, record }: Facts): Advice | undefined {
  const last = lastAdd(calls);
  const isAttached = record !== undefined && record.teardownError === undefined;
  if (last?.message === undefined || isAttached) return undefined;
  const { finding, step } = explainError({ ...last, message: last.message });
  return problem(finding, `The pod could not be attached (${quoted(last.message)}): ${step}.`);
}

function lastAdd(calls: readonly CallRecord[]): CallRecord | undefined {
  return calls.find(({ command }) => command === "ADD");
}

const confSteps: Readonly<Record<string, string>> = {
  shadowed: "remove that file, or give it a name that sorts after ours",
  missing: "find out what removes the file; plexusd writes it again",
  "foreign-rename":
    "find out what renames the file, most likely another meta-plugin; plexusd writes it again",
  waiting: "see why that is not there yet",
};

function nodeNotServed({ node, record }: Facts): Advice | undefined {
  const { confState, confReason = "" } = node;
  if (confState === undefined || confState === "active" || record !== undefined) return undefined;
  const words = confState.split("-").map((word) => word[0]?.toUpperCase() + word.slice(1));
  return problem(
    `PlexusConf${words.join("")}`,
    `The container runtime of this node does not call Plexus (${confReason}): ${confSteps[confState] ?? "run plexusctl doctor"}, then create the pod again.`,
  );
}

function sourceNotReady({ sourceProblem, record }: Facts): Advice | undefined {
  return sourceProblem === undefined || record !== undefined ? undefined : apiAway(sourceProblem);
}

function apiAway(reason: string): Advice {
  return problem(
    "ApiUnavailable",
    `Pods and definitions cannot be looked up (${reason}): see whether this node reaches the API server, and the rights of plexusd's service account.`,
  );
}

/** What the next ADD would fail for. */
function unusable({ problems, record }: Facts): Advice | undefined {
  const first = problems.find(({ isTolerated }) => isTolerated !== true);
  if (first === undefined || record !== undefined) return undefined;
  const { finding, step } = explainError(first);
  const subject = first.network === undefined ? "The pod" : `Network ${first.network}`;
  return problem(finding, `${subject} cannot be attached (${quoted(first.message)}): ${step}.`);
}

function unattached({ pod, record, missing }: Facts): Advice | undefined {
  if (record !== undefined) return undefined;
  if (pod.phase !== "Running") {
    return problem(
      "NotAttachedYet",
      "The container runtime has not asked Plexus to attach the pod yet: see the pod's events (kubectl describe pod) for what it waits for.",
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

function annotationChanged({ networks }: Facts): Advice | undefined {
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
  const ignoring = networks.filter(({ ignored = [] }) => ignored.length > 0);
  if (ignoring.length === 0) return undefined;
  const list = ignoring.map(({ network, ignored }) => `${network} ${ignoredWords(ignored ?? [])}`);
  return problem(
    "IgnoredRequest",
    `All networks are attached, but not as the pod asks (ignoredRequests: warn): ${list.join("; ")}. Use a plugin that supports the key, or remove the key from the annotation.`,
  );
}

function attachedAsAsked({ networks, annotation }: Facts): Advice {
  if (annotation === undefined && networks.length <= 1) {
    return fine(
      "NothingRequested",
      "The default network is attached; the pod asks for no other (it has no annotation k8s.v1.cni.cncf.io/networks).",
    );
  }
  const list = networks.map(({ ifName, network }) => `${ifName}=${network}`).join(", ");
  return fine("Attached", `All networks are attached: ${list}.`);
}

function problem(finding: string, sentence: string): Advice {
  return { finding, sentence, ok: false };
}

function fine(finding: string, sentence: string): Advice {
  return { finding, sentence, ok: true };
}

function quoted(message: string): string {
  return message.length > quotedMax ? `${message.slice(0, quotedMax)}…` : message;
}
