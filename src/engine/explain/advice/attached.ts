import { statusCondition } from "#engine/ports/cluster.ts";
import type { Condition } from "#lib/condition.ts";
import { ignoredWords } from "#npwg/served-requests.ts";
import { type Facts, listOf } from "./facts.ts";
import { explained } from "./sentence.ts";

/* Rules about pods that are attached. */

export function networkAdded({ networks, damagedRecord }: Facts): Condition | undefined {
  const added = networks.find(({ ifName, isConfigured }) => ifName === undefined && !isConfigured);
  if (added === undefined) return undefined;
  if (damagedRecord !== undefined) return attachedUnknown(damagedRecord);
  const message = `The pod was attached without network ${added.network}, which the annotation names since then: networks are attached when a pod starts, so create it again`;
  return { reason: "AnnotationChanged", message, lacksNetworks: true };
}

export function attachedUnknown(why: string): Condition {
  const message = `Plexus does not know what the pod is attached to: ${why}; delete the pod, so that it starts anew, and see what kubectl plexus doctor names`;
  return { reason: "RecordDamaged", message };
}

export function statusPending({ record }: Facts): Condition | undefined {
  if (record?.statusFailure === undefined) return undefined;
  const condition = statusCondition(record.statusFailure);
  return { ...condition, message: `All networks are attached, but ${condition.message}` };
}

export function requestIgnored({ networks }: Facts): Condition | undefined {
  const list = networks.flatMap(({ network, ignored = [] }) =>
    ignored.length === 0 ? [] : `${network} ${ignoredWords(ignored)}`,
  );
  if (list.length === 0) return undefined;
  const message = `All networks are attached, but not as the pod asks (strictness: multus): ${list.join("; ")}. Use a plugin that supports the key, or remove the key from the annotation`;
  return { reason: "IgnoredRequest", message, lacksNetworks: true };
}

export function keyUnknown({ problems }: Facts): Condition | undefined {
  const unknown = problems.find(({ reason }) => reason === "UnknownKey");
  return unknown && explained("All networks are attached, but not as the annotation says", unknown);
}

export function clusterShadowed({ networks }: Facts): Condition | undefined {
  const other = networks.find(({ shadows }) => shadows !== undefined);
  if (other === undefined) return undefined;
  const { network, ifName, shadows = [] } = other;
  const what = `the pod reaches ${shadows.join(", ")} of the cluster by ${network} (${ifName})`;
  const step = `set clusterRoutes (docs/user/networks.md, "Default route that keeps the cluster") and create the pod again, or give the network other ranges`;
  const message = `All networks are attached: ${listOf(networks)}. But ${what}: ${step}`;
  return { reason: "ClusterShadowed", message };
}

export function definitionChanged({ networks, pod, isHotPluggable }: Facts): Condition | undefined {
  const outdated = networks.find(({ isOutdated }) => isOutdated === true);
  if (outdated === undefined) return undefined;
  const refresh = `run kubectl plexus refresh ${pod.namespace}/${pod.name} ${outdated.ifName}, which interrupts this network, or `;
  const message = `All networks are attached: ${listOf(networks)}. The definition of ${outdated.network} has changed since: to apply it, ${isHotPluggable ? refresh : ""}create the pod again`;
  return { reason: "DefinitionChanged", message };
}

/** The pod has all that it asks for, but would start with other networks. */
export function networksDiffer({ networks }: Facts): Condition | undefined {
  const other = networks.find((each) => each.isUnrequested === true || each.isConfigured === true);
  if (other === undefined) return undefined;
  const { network, ifName } = other;
  const what =
    ifName === undefined
      ? `The configuration names ${network} since then: to attach it`
      : `Neither annotation nor configuration name ${network} (${ifName}) any more: to detach it`;
  const message = `All networks are attached: ${listOf(networks)}. ${what}, create the pod again`;
  return { reason: "AnnotationChanged", message };
}

export function attachedAsAsked({ networks, annotation }: Facts): Condition {
  if (annotation === undefined && networks.length <= 1) {
    const message =
      "The default network is attached; the pod asks for no other (it has no annotation k8s.v1.cni.cncf.io/networks)";
    return { reason: "NothingRequested", message };
  }
  return { reason: "Attached", message: `All networks are attached: ${listOf(networks)}` };
}
