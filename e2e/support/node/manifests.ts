import type { JsonObject } from "#lib/json.ts";

/** Kubernetes objects as tests, the benchmark and manifest files have them. */

/** What a NetworkAttachmentDefinition has besides its name and configuration. */
export interface NadOptions {
  /** @default default */
  readonly namespace?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A NetworkAttachmentDefinition; without a configuration, which is then looked for on disk. */
export function nad(
  name: string,
  config: object | undefined,
  { namespace = "default", annotations = {} }: NadOptions = {},
): JsonObject {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace, annotations },
    spec: config === undefined ? {} : { config: JSON.stringify(config) },
  };
}

/** The text of a manifest file: objects become one YAML document each (JSON is YAML). */
export function manifestText(objects: readonly object[]): string {
  return objects.map((object) => JSON.stringify(object)).join("\n---\n");
}
