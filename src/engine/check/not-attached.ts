import { asCniError } from "#cni/error.ts";
import type { Pod, PodState } from "#engine/ports/cluster.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import type { Condition } from "#lib/condition.ts";
import type { JsonObject } from "#lib/json.ts";
import { statusEntries } from "#npwg/network-status.ts";
import {
  defaultNetworkAnnotation,
  networksAnnotation,
  parseDefaultNetworkSelection,
  parseNetworkSelections,
} from "#npwg/selection/selection.ts";

/** What this node knows of the pod. */
export interface PodAttachment {
  readonly isRecorded: boolean;
  /** For how long it has been seen without a record, as every pod is between two sandboxes. */
  readonly unrecordedForMs: number;
  /** The namespace of a default-network annotation that names none. */
  readonly plexusNamespace: string;
}

/** Longer than a pod is without a record while its sandbox is made anew. */
export const notAttachedGraceMs = 30_000;

/**
 * The networks (`namespace/name`) that a running pod asks for but lacks, because its sandbox was
 * not attached through Plexus. Ignores pods of the host's network or still starting, and what
 * another meta-plugin attached according to the present sandbox's status.
 */
export function missingNetworks(pod: PodState, attachment: PodAttachment): readonly string[] {
  const { isRecorded, unrecordedForMs, plexusNamespace } = attachment;
  if (isRecorded || unrecordedForMs < notAttachedGraceMs || !isUp(pod)) return [];
  const present = currentEntries(pod).map(({ name }) => name);
  const { names = [] } = requestedNames(pod, plexusNamespace);
  return names.filter((name) => !present.includes(name));
}

/** What is found of a running pod that lacks networks. */
export function notAttached(networks: readonly string[]): Condition {
  const why = "its sandbox was made when the container runtime did not call Plexus";
  return {
    reason: "NotAttached",
    message: `the pod runs without ${networks.join(", ")}: ${why}`,
    step: "delete the pod, so that it starts anew with its networks (docs/operations/fresh-nodes.md)",
  };
}

interface RecordedNetworks {
  readonly attachments: readonly Pick<RecordedAttachment, "isDefault" | "selection">[];
}

/**
 * Why a running pod has none of the networks that it asks for, although Plexus was called for it:
 * its annotation is invalid. Undefined for a pod that got networks before an edit made it invalid.
 */
export function ignoredAnnotation(
  pod: PodState,
  records: readonly RecordedNetworks[],
  plexusNamespace: string,
): string | undefined {
  if (!isUp(pod)) return undefined;
  if (records.length === 0 && currentEntries(pod).length > 1) return undefined;
  const attachments = records.flatMap((record) => record.attachments);
  const hasRequested = attachments.some(({ isDefault, selection }) => !isDefault && selection);
  return hasRequested ? undefined : requestedNames(pod, plexusNamespace).invalid;
}

/** Whether its present sandbox should have been attached. */
function isUp({ hostNetwork, isTerminating, phase, podIps }: PodState): boolean {
  return !hostNetwork && !isTerminating && phase === "Running" && podIps.length > 0;
}

/** Whether the pod's annotations cannot be read. */
export function isInvalid(pod: Pod, plexusNamespace: string): boolean {
  return requestedNames(pod, plexusNamespace).invalid !== undefined;
}

/** Whether the pod's annotations ask for anything but the node's default network. */
export function asksForNetworks(pod: Pick<Pod, "annotations">): boolean {
  return [networksAnnotation, defaultNetworkAnnotation].some(
    (key) => (pod.annotations[key] ?? "").trim() !== "",
  );
}

/** The networks of the annotations, or why these are invalid. */
function requestedNames(
  { annotations, namespace }: Pod,
  plexusNamespace: string,
): { readonly names?: readonly string[]; readonly invalid?: string } {
  const byDefault = annotations[defaultNetworkAnnotation];
  try {
    const networks = annotations[networksAnnotation] ?? "";
    const selections = parseNetworkSelections(networks, { podNamespace: namespace });
    const options = { defaultNamespace: plexusNamespace };
    const first = byDefault === undefined ? [] : [parseDefaultNetworkSelection(byDefault, options)];
    return { names: [...first, ...selections].map((each) => `${each.namespace}/${each.name}`) };
  } catch (error) {
    return { invalid: asCniError(error).message };
  }
}

/** The entries of a status of the present sandbox: its default network has the pod's address. */
export function currentEntries({ networkStatus = "", podIps }: PodState): JsonObject[] {
  const entries = statusEntries(networkStatus);
  const ips = entries.flatMap(({ ips: list }) => (Array.isArray(list) ? list : []));
  return ips.some((ip) => typeof ip === "string" && podIps.includes(ip)) ? entries : [];
}
