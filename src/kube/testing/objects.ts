import type { JsonObject } from "#lib/json.ts";

/** A Pod as the API server has it. */
export function podObject(
  name: string,
  options: {
    namespace?: string;
    uid?: string;
    node?: string;
    annotations?: Record<string, string>;
  } = {},
): JsonObject {
  return {
    metadata: {
      namespace: options.namespace ?? "default",
      name,
      uid: options.uid ?? `uid-of-${name}`,
      annotations: { ...options.annotations },
    },
    spec: { nodeName: options.node ?? "node-1", containers: [{ name: "main", image: "busybox" }] },
  };
}

/** A NetworkAttachmentDefinition as the API server has it. */
export function nadObject(
  name: string,
  config = `{"type":"macvlan","name":"${name}"}`,
): JsonObject {
  return {
    metadata: {
      namespace: "default",
      name,
      annotations: { "k8s.v1.cni.cncf.io/resourceName": "vendor.example/nic", other: "x" },
    },
    spec: { config },
  };
}
