import { CniError } from "#cni/error.ts";

/** Whose network a pod wants to use, and what the node's configuration says about that. */
export interface NamespaceAccess {
  readonly podNamespace: string;
  readonly nadNamespace: string;
  /** The definition's name, for the message. */
  readonly name: string;
  /** Whether pods may only use networks of their own namespace and of global ones. */
  readonly namespaceIsolation: boolean;
  /**
   * Namespaces whose networks every pod may use.
   * @default ["default"] as in Multus
   */
  readonly globalNamespaces?: readonly string[] | undefined;
}

/** What Multus takes as global when the configuration says nothing. */
const defaultGlobalNamespaces: readonly string[] = ["default"];

/**
 * Refuses a network that the pod may not use (multi-network specification v1.1 §7.4). To be asked of
 * every network that a pod's annotations name, the default-network annotation included: Multus
 * forgets that one, which lets a pod pass the isolation by.
 *
 * @throws CniError 101
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
