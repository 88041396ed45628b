const label = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/;

/**
 * Why a text is no DNS-1123 label, which Kubernetes namespaces are named by; undefined when it is
 * one. As Kubernetes checks them: `apimachinery/pkg/util/validation`.
 */
export function dnsLabelProblem(text: string): string | undefined {
  if (text === "") return "must not be empty";
  if (text.length > 63) return "must be at most 63 characters long";
  return label.test(text) ? undefined : "must be a DNS-1123 label (a-z, 0-9 and '-')";
}

/**
 * Why a text is no DNS-1123 subdomain, labels joined by dots, which pods, nodes and custom
 * resources are named by; undefined when it is one. Kubernetes limits only its whole length.
 */
export function dnsSubdomainProblem(text: string): string | undefined {
  if (text === "") return "must not be empty";
  if (text.length > 253) return "must be at most 253 characters long";
  const isValid = text.split(".").every((part) => label.test(part));
  return isValid ? undefined : "must be a DNS-1123 subdomain (a-z, 0-9, '-' and '.')";
}
