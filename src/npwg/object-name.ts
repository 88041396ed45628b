const label = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/;

/**
 * Why a name cannot be that of a NetworkAttachmentDefinition; undefined when it can. The name is
 * made of DNS-1123 labels joined by dots, as Kubernetes allows for custom resources
 * (multi-network specification v1.1 §3.3).
 */
export function nadNameProblem(name: string): string | undefined {
  if (name === "") return "name is empty";
  if (name.length > 253) return "longer than 253 characters";
  if (name.split(".").every((part) => label.test(part))) return undefined;
  return "not a lower-case DNS-1123 name (a-z, 0-9, '-' and '.')";
}

/** Why a name cannot be that of a Kubernetes namespace: one DNS-1123 label of at most 63 characters. */
export function namespaceProblem(name: string): string | undefined {
  if (name === "") return "namespace is empty";
  if (name.length > 63) return "longer than 63 characters";
  return label.test(name) ? undefined : "not a lower-case DNS-1123 label (a-z, 0-9 and '-')";
}
