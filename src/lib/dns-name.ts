const label = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/;

/** Why a text is not a DNS-1123 label, as Kubernetes checks namespaces; undefined if it is one. */
export function dnsLabelProblem(text: string): string | undefined {
  if (text === "") return "must not be empty";
  if (text.length > 63) return "must be at most 63 characters long";
  return label.test(text) ? undefined : "must be a DNS-1123 label (a-z, 0-9 and '-')";
}

/**
 * Why a text is not a DNS-1123 subdomain (labels separated by dots), the form of names of pods,
 * nodes and custom resources; undefined when it is one. Kubernetes limits only its total length.
 */
export function dnsSubdomainProblem(text: string): string | undefined {
  if (text === "") return "must not be empty";
  if (text.length > 253) return "must be at most 253 characters long";
  const isValid = text.split(".").every((part) => label.test(part));
  return isValid ? undefined : "must be a DNS-1123 subdomain (a-z, 0-9, '-' and '.')";
}
