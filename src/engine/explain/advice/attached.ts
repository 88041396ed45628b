import type { Advice } from "#engine/explain/explanation.ts";
import { ignoredWords } from "#npwg/served-requests.ts";
import { type Facts, listOf, retried } from "./facts.ts";
import { explained, fine, problem } from "./sentence.ts";

/* Rules about pods that are attached. */

export function networkAdded({ networks }: Facts): Advice | undefined {
  const added = networks.find(({ ifName }) => ifName === undefined);
  if (added === undefined) return undefined;
  return problem(
    "AnnotationChanged",
    `The pod was attached without network ${added.network}, which the annotation or the configuration names since then: networks are attached when a pod starts, so create it again.`,
  );
}

export function statusPending({ record }: Facts): Advice | undefined {
  if (record?.statusFailure === undefined) return undefined;
  const { isRejected, message } = record.statusFailure;
  const cause = isRejected
    ? `the API server rejects the network-status annotation: ${message}. Change the role or the admission policy that rejects it; plexusd retries within ten minutes`
    : `the network-status annotation could not be written yet: ${message}. plexusd retries until the API server accepts it`;
  return problem("StatusPending", `All networks are attached, but ${cause}.`);
}

export function requestIgnored({ networks }: Facts): Advice | undefined {
  const list = networks.flatMap(({ network, ignored = [] }) =>
    ignored.length === 0 ? [] : `${network} ${ignoredWords(ignored)}`,
  );
  if (list.length === 0) return undefined;
  return problem(
    "IgnoredRequest",
    `All networks are attached, but not as the pod asks (ignoredRequests: warn): ${list.join("; ")}. Use a plugin that supports the key, or remove the key from the annotation.`,
  );
}

export function keyUnknown(facts: Facts): Advice | undefined {
  const unknown = facts.problems.find(({ reason }) => reason === "UnknownKey");
  if (unknown === undefined) return undefined;
  const what = "All networks are attached, but not as the annotation says";
  return explained(what, retried(facts, unknown));
}

export function definitionChanged({ networks, pod, isHotPluggable }: Facts): Advice | undefined {
  const outdated = networks.find(({ isOutdated }) => isOutdated === true);
  if (outdated === undefined) return undefined;
  const refresh = `run kubectl plexus refresh ${pod.namespace}/${pod.name} ${outdated.ifName}, which interrupts this network, or `;
  return fine(
    "DefinitionChanged",
    `All networks are attached: ${listOf(networks)}. The definition of ${outdated.network} has changed since: to apply it, ${isHotPluggable ? refresh : ""}create the pod again.`,
  );
}

/** Without hot-plug, which would unplug the network. */
export function networkRemoved({ networks }: Facts): Advice | undefined {
  const removed = networks.find(({ isUnrequested }) => isUnrequested === true);
  if (removed === undefined) return undefined;
  return fine(
    "AnnotationChanged",
    `All networks are attached: ${listOf(networks)}. Neither annotation nor configuration name ${removed.network} (${removed.ifName}) any more: to detach it, create the pod again.`,
  );
}

export function attachedAsAsked({ networks, annotation }: Facts): Advice {
  if (annotation === undefined && networks.length <= 1) {
    return fine(
      "NothingRequested",
      "The default network is attached; the pod asks for no other (it has no annotation k8s.v1.cni.cncf.io/networks).",
    );
  }
  return fine("Attached", `All networks are attached: ${listOf(networks)}.`);
}
