import { asCniError, CniError } from "#cni/error.ts";
import type { EngineConfig } from "#engine/config.ts";
import { recordedSelection } from "#engine/plan/recorded-network.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import type { Condition } from "#lib/condition.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";
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

/** The difference of a pod's annotation and its record. */
export interface PodChanges extends NetworkChanges {
  /** Why the annotation is invalid: the pod then keeps what is recorded, as it was requested. */
  readonly invalid?: CniError;
}

/** Compares a pod with its record; `refreshed` is an interface that counts as changed. */
export function changesOf(
  { defaultNetworks, systemNamespaces, plexusNamespace }: EngineConfig,
  record: AttachmentRecord,
  pod: Pick<Pod, "namespace" | "annotations"> & { readonly refreshed?: string | undefined },
): PodChanges {
  const all = systemNamespaces.includes(pod.namespace) ? [] : defaultNetworks;
  const configured = all.map((name) => `${plexusNamespace}/${name}`);
  const options = { configured, refreshed: pod.refreshed };
  try {
    return networkChanges(record, selectionsOf(pod), options);
  } catch (error) {
    const selections = record.attachments.flatMap((each) => recordedSelection(each) ?? []);
    return { ...networkChanges(record, selections, options), invalid: asCniError(error) };
  }
}

/** @throws CniError 100 if the annotation is invalid, or two elements request one interface */
function selectionsOf({
  namespace: podNamespace,
  annotations,
}: Pick<Pod, "namespace" | "annotations">): NetworkSelection[] {
  const text = annotations[networksAnnotation] ?? "";
  const selections = parseNetworkSelections(text, { podNamespace });
  for (const [name, [first, second]] of Map.groupBy(selections, ({ ifName }) => ifName)) {
    if (name === undefined || first === undefined || second === undefined) continue;
    const message = `network selection annotation is invalid: elements ${first.position} and ${second.position} request interface ${name}`;
    throw new CniError("InterfaceNameTaken", message);
  }
  return selections;
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
