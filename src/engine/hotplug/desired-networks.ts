import { asCniError, type CniError } from "#cni/error.ts";
import type { EngineConfig } from "#engine/config.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import type { Condition } from "#lib/condition.ts";
import {
  defaultNetworkAnnotation,
  networksAnnotation,
  parseDefaultNetworkSelection,
  parseNetworkSelections,
} from "#npwg/selection/selection.ts";
import { type NetworkChanges, networkChanges } from "./changes.ts";

/** Whether the configuration lets edits of this namespace's pods change their networks. */
export function mayHotPlug({ hotPlug }: Pick<EngineConfig, "hotPlug">, namespace: string): boolean {
  return typeof hotPlug === "boolean" ? hotPlug : hotPlug.includes(namespace);
}

/** The difference of a pod's annotation and its record; without hot-plug, what it has left to detach. */
export interface PodChanges extends NetworkChanges {
  /** Why the annotation is invalid: nothing changes then. */
  readonly invalid?: CniError;
}

/** Compares a pod with its record; `refreshed` is an interface that counts as changed. */
export function changesOf(
  { defaultNetworks, systemNamespaces, plexusNamespace, hotPlug }: EngineConfig,
  record: AttachmentRecord,
  pod: Pick<Pod, "namespace" | "annotations"> & { readonly refreshed?: string | undefined },
): PodChanges {
  if (!mayHotPlug({ hotPlug }, pod.namespace)) {
    const removals = record.attachments.filter(({ state }) => state !== "attached");
    return { removals, additions: [] };
  }
  const all = systemNamespaces.includes(pod.namespace) ? [] : defaultNetworks;
  const configured = all.map((name) => `${plexusNamespace}/${name}`);
  const options = { configured, refreshed: pod.refreshed };
  const text = pod.annotations[networksAnnotation] ?? "";
  try {
    const selections = parseNetworkSelections(text, { podNamespace: pod.namespace });
    return networkChanges(record, selections, options);
  } catch (error) {
    return { removals: [], additions: [], invalid: asCniError(error) };
  }
}

/** Whether a pod has what its annotation requests. */
export function isSettled({ additions, removals, invalid }: PodChanges): boolean {
  return additions.length + removals.length === 0 && invalid === undefined;
}

/** Why an edit of the default-network annotation has no effect; undefined without such an edit. */
export function defaultNetworkEdit(
  { plexusNamespace }: EngineConfig,
  { attachments }: AttachmentRecord,
  { annotations }: Pick<Pod, "annotations">,
): Condition | undefined {
  const annotation = annotations[defaultNetworkAnnotation];
  if (annotation === undefined) return undefined;
  const current = attachments[0]?.displayName;
  const found = (why: string): Condition => {
    const message = `a running pod keeps its default network ${current}: ${why}`;
    return { reason: "AnnotationChanged", message, lacksNetworks: true };
  };
  try {
    const options = { defaultNamespace: plexusNamespace };
    const { namespace, name } = parseDefaultNetworkSelection(annotation, options);
    if (current === `${namespace}/${name}`) return undefined;
    return found(`create the pod again to attach it to ${namespace}/${name}`);
  } catch (error) {
    return found(asCniError(error).message);
  }
}
