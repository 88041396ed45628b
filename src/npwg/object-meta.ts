import { dnsLabelProblem, dnsSubdomainProblem } from "#lib/dns-name.ts";
import type { FieldReader } from "#lib/field-reader.ts";
import { isJsonObject, quoteValue } from "#lib/json.ts";

/** What is used of a Kubernetes object's `metadata`. */
export interface ObjectMeta {
  readonly namespace: string;
  readonly name: string;
  readonly annotations: Readonly<Record<string, string>>;
}

/** The namespace of an object in a manifest that names none, as kubectl has it. */
const manifestNamespace = "default";

/** Reads the `metadata` of a namespaced object; only in a manifest may the namespace be left out. */
export function readObjectMeta(object: FieldReader, options: { isManifest: boolean }): ObjectMeta {
  const metadata = object.object("metadata");
  if (object.value("metadata") === undefined) object.problem("metadata", "is missing");
  const isInherited = options.isManifest && metadata?.value("namespace") === undefined;
  return {
    namespace: isInherited
      ? manifestNamespace
      : (metadata?.requiredChecked("namespace", dnsLabelProblem) ?? ""),
    name: metadata?.requiredChecked("name", dnsSubdomainProblem) ?? "",
    annotations: metadata?.stringMap("annotations") ?? {},
  };
}

/** Kind, namespace and name of an object for messages, as far as it says them. */
export function describeObject(kind: string, object: unknown): string {
  const metadata = isJsonObject(object) && isJsonObject(object.metadata) ? object.metadata : {};
  const { namespace, name } = metadata;
  const parts = [namespace, name].filter((part) => typeof part === "string" && part !== "");
  return parts.length === 0 ? kind : `${kind} ${quoteValue(parts.join("/"))}`;
}
