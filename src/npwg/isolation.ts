import { CniError } from "#cni/error.ts";
import type { ObjectMeta } from "./object-meta.ts";

/** On definitions: annotations that limit who may use it. A misspelled one permits nothing. */
export const allowedPrefix = "plexus.dev/allowed-";
/** The namespaces whose pods may use it, besides its own: names, or beginnings with a final `*`. @internal */
export const allowedNamespaces = `${allowedPrefix}namespaces`;
/** A label selector for such namespaces. @internal */
export const allowedSelector = `${allowedNamespaces}-selector`;

/** The namespaces that a definition's owner permits to use it; all, unless it is limited. */
export function permittedNamespaces({ annotations }: Pick<ObjectMeta, "annotations">) {
  const isLimited = Object.keys(annotations).some((key) => key.startsWith(allowedPrefix));
  const names = (annotations[allowedNamespaces] ?? "").split(",").map((name) => name.trim());
  return { isLimited, names, selector: annotations[allowedSelector]?.trim() ?? "" };
}

/** The settings of namespace isolation. */
export interface IsolationRules {
  /** Whether pods may use only networks in their namespace and in global namespaces. */
  readonly namespaceIsolation: boolean;
  /** Namespaces whose networks every pod may use. @default ["default"] as in Multus */
  readonly globalNamespaces?: readonly string[] | undefined;
}

/** Whether a pod of a namespace may use the networks of another. */
export function mayUse(
  podNamespace: string,
  namespace: string,
  { namespaceIsolation, globalNamespaces = ["default"] }: IsolationRules,
): boolean {
  return !namespaceIsolation || [podNamespace, ...globalNamespaces].includes(namespace);
}

/**
 * Checks that a pod of a namespace may use a network (multi-network specification v1.1 §7.4). Call
 * it for every network of the annotations, also of the default-network annotation, which Multus
 * forgets.
 * @throws CniError 101 when it may not
 */
export function checkNamespaceAccess(
  podNamespace: string,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  rules: IsolationRules,
): void {
  if (mayUse(podNamespace, namespace, rules)) return;
  throw new CniError(
    "NetworkAccessDenied",
    `namespace isolation: a pod of namespace "${podNamespace}" may not use network "${namespace}/${name}"`,
  );
}
