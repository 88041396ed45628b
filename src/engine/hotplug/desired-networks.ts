import { asCniError, CniError } from "#cni/error.ts";
import type { EngineConfig } from "#engine/config.ts";
import { recordedSelection } from "#engine/plan/recorded-network.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
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
  config: EngineConfig,
  record: AttachmentRecord,
  pod: Pick<Pod, "namespace" | "annotations"> & { readonly refreshed?: string | undefined },
): PodChanges {
  const { namespace, refreshed } = pod;
  const options = { configured: configuredNames(config, namespace), refreshed };
  try {
    return networkChanges(record, selectionsOf(pod), options);
  } catch (error) {
    const selections = record.attachments.flatMap((each) => recordedSelection(each) ?? []);
    return { ...networkChanges(record, selections, options), invalid: asCniError(error) };
  }
}

/** @throws CniError 100 if the annotation is invalid */
function selectionsOf({
  namespace: podNamespace,
  annotations,
}: Pick<Pod, "namespace" | "annotations">): NetworkSelection[] {
  const text = annotations[networksAnnotation] ?? "";
  const selections = parseNetworkSelections(text, { podNamespace });
  refuseRepeatedNames(selections);
  return selections;
}

/** Whether a pod has what its annotation requests. */
export function isSettled({ additions, removals, invalid }: PodChanges): boolean {
  return additions.length + removals.length === 0 && invalid === undefined;
}

/** @throws CniError 100 naming the interface and its elements */
function refuseRepeatedNames(selections: readonly NetworkSelection[]): void {
  const byName = Map.groupBy(selections, ({ ifName }) => ifName);
  for (const [name, [first, second]] of byName) {
    if (name === undefined || first === undefined || second === undefined) continue;
    const message = `network selection annotation is invalid: elements ${first.position} and ${second.position} request interface ${name}`;
    throw new CniError("InterfaceNameTaken", message);
  }
}

/** Why an edit of the default-network annotation has no effect; undefined without such an edit. */
export function defaultNetworkEdit(
  { plexusNamespace }: EngineConfig,
  { attachments }: AttachmentRecord,
  { annotations }: Pick<Pod, "annotations">,
): string | undefined {
  const annotation = annotations[defaultNetworkAnnotation];
  if (annotation === undefined) return undefined;
  const current = attachments[0]?.displayName;
  const keeps = `a running pod keeps its default network ${current}`;
  try {
    const options = { defaultNamespace: plexusNamespace };
    const { namespace, name } = parseDefaultNetworkSelection(annotation, options);
    if (current === `${namespace}/${name}`) return undefined;
    return `${keeps}: create the pod again to attach it to ${namespace}/${name}`;
  } catch (error) {
    return `${keeps}: ${asCniError(error).message}`;
  }
}

/** The definitions that every pod of a namespace is attached to. */
function configuredNames(
  { defaultNetworks, systemNamespaces, plexusNamespace }: EngineConfig,
  podNamespace: string,
): string[] {
  if (systemNamespaces.includes(podNamespace)) return [];
  return defaultNetworks.map((name) => `${plexusNamespace}/${name}`);
}
