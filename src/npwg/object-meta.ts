import { dnsLabelProblem, dnsSubdomainProblem } from "#lib/dns-name.ts";
import { isJsonObject, type JsonObject, objectOf, quoteValue } from "#lib/json.ts";
import type { FieldReader } from "#lib/parsing/field-reader.ts";

/** The used part of a Kubernetes object's `metadata`. */
export interface ObjectMeta {
  readonly namespace: string;
  readonly name: string;
  readonly annotations: Readonly<Record<string, string>>;
}

/** kubectl's default namespace for manifests. */
const manifestNamespace = "default";

/** Reads the `metadata` of a namespaced object. The namespace is optional in a manifest only. */
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

/** Kind, namespace and name for messages, as far as known. */
export function describeObject(kind: string, object: unknown): string {
  const metadata = isJsonObject(object) && isJsonObject(object.metadata) ? object.metadata : {};
  const { namespace, name } = metadata;
  const parts = [namespace, name].filter((part) => typeof part === "string" && part !== "");
  return parts.length === 0 ? kind : `${kind} ${quoteValue(parts.join("/"))}`;
}

/** On the mirror of a static pod: the UID that the kubelet and the runtime know. */
export const mirrorAnnotation = "kubernetes.io/config.mirror";

/** The UID by which the kubelet and the runtime know a pod: a mirror names the static pod's. */
export function runtimeUid(pod: { uid: string } & Pick<ObjectMeta, "annotations">): string {
  return pod.annotations[mirrorAnnotation] ?? pod.uid;
}

/**
 * Whether the annotations are a static pod's, from the kubelet or its mirror pod. The mirror's UID
 * differs from the UID that the kubelet and the runtime know.
 */
export function isStaticPod(annotations: Readonly<Record<string, string>>): boolean {
  const source = annotations["kubernetes.io/config.source"];
  const isMirror = annotations[mirrorAnnotation] !== undefined;
  return isMirror || (source !== undefined && source !== "api");
}

/** How containerd ≥ 1.5 and CRI-O ≥ 1.29 pass the pod's annotations, never older than the API's. */
export const podAnnotationsCapability = "io.kubernetes.cri.pod-annotations";

/** `spec.nodeName` of a pod in the API: the Node's name, which may differ from the host's name. */
export function nodeNameOf({ spec }: JsonObject): string | undefined {
  const name = objectOf(spec).nodeName;
  return typeof name === "string" && name !== "" ? name : undefined;
}
