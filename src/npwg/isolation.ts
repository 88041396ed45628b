import { CniError } from "#cni/error.ts";

/** The network that a pod wants to use, and the node's isolation settings. */
export interface NamespaceAccess {
  readonly podNamespace: string;
  readonly nadNamespace: string;
  readonly name: string;
  /** Whether pods may use only networks in their namespace and in global namespaces. */
  readonly namespaceIsolation: boolean;
  /** Namespaces whose networks every pod may use. @default ["default"] as in Multus */
  readonly globalNamespaces?: readonly string[] | undefined;
}

const defaultGlobalNamespaces: readonly string[] = ["default"];

/**
 * Checks that the pod may use a network (multi-network specification v1.1 §7.4). Call it for every
 * network of the annotations, also of the default-network annotation, which Multus forgets.
 * @throws CniError 101 when it may not
 */
export function checkNamespaceAccess(access: NamespaceAccess): void {
  const { podNamespace, nadNamespace, name, namespaceIsolation } = access;
  if (!namespaceIsolation || nadNamespace === podNamespace) return;
  if ((access.globalNamespaces ?? defaultGlobalNamespaces).includes(nadNamespace)) return;
  throw new CniError(
    "NetworkAccessDenied",
    `namespace isolation: a pod of namespace "${podNamespace}" may not use network "${nadNamespace}/${name}"`,
  );
}
