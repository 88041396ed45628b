import type { JsonObject } from "#lib/json.ts";
import { annotationOf, type Delegates, network, networkName } from "./delegates.ts";

/** The node whose pods are attached. */
export const nodeName = "bench-node";
export const namespace = "bench";

/** The name of a pod that is attached to these networks. */
export function podName(delegates: Delegates, nth: number): string {
  return `${delegates.name}-${nth}`;
}

/** The UID of a pod: its name, in the form of one. */
export function podUid(name: string): string {
  return `00000000-0000-4000-8000-${Buffer.from(name).toString("hex").slice(-12).padStart(12, "0")}`;
}

/** Pods of the node as the API server has them: with a spec and a status of a usual size, about 5 KB. */
export function pods(delegates: Delegates, count: number): JsonObject[] {
  const annotation = annotationOf(delegates);
  const annotations = annotation === "" ? {} : { "k8s.v1.cni.cncf.io/networks": annotation };
  return Array.from({ length: count }, (_, nth) => pod(podName(delegates, nth), annotations));
}

function pod(name: string, annotations: JsonObject): JsonObject {
  const creationTimestamp = "2026-01-01T00:00:00Z";
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace,
      uid: podUid(name),
      creationTimestamp,
      annotations,
      labels: { app: "bench", "pod-template-hash": "5d59d67564" },
      managedFields: [
        {
          manager: "kube-controller-manager",
          operation: "Update",
          apiVersion: "v1",
          fieldsType: "FieldsV1",
          fieldsV1: { "f:metadata": { "f:labels": { "f:app": {} } }, "f:spec": {} },
        },
      ],
    },
    spec: { nodeName, containers: ["web", "sidecar"].map(container), restartPolicy: "Always" },
    status: {
      phase: "Pending",
      conditions: ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map((type) => ({
        type,
        status: "False",
        lastTransitionTime: creationTimestamp,
        message: "containers with unready status: [web sidecar]",
      })),
    },
  };
}

function container(name: string): JsonObject {
  return {
    name,
    image: `registry.example/team/${name}:1.2.3`,
    env: Array.from({ length: 12 }, (_, n) => ({ name: `SETTING_${n}`, value: `value ${n}` })),
    ports: [{ containerPort: 8080, protocol: "TCP" }],
    resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { memory: "256Mi" } },
    livenessProbe: { httpGet: { path: "/healthz", port: 8080 }, periodSeconds: 10 },
    volumeMounts: ["config", "data", "token"].map((each) => ({
      name: each,
      mountPath: `/var/lib/${each}`,
    })),
    terminationMessagePath: "/dev/termination-log",
    imagePullPolicy: "IfNotPresent",
  };
}

/** The NetworkAttachmentDefinitions of these networks. */
export function nads(sets: readonly Delegates[]): JsonObject[] {
  return sets.flatMap((set) =>
    set.plugins.slice(1).map((_, nth) => nad(networkName(set, nth + 1), network(set, nth + 1))),
  );
}

/** Definitions that no pod asks for. */
export function otherNads(count: number): JsonObject[] {
  return Array.from({ length: count }, (_, nth) => {
    const ipam = { type: "whereabouts", range: `10.${nth % 256}.0.0/16` };
    const plugin = { type: "macvlan", master: "eth1", mode: "bridge", ipam };
    return nad(`other-${nth}`, { cniVersion: "1.0.0", name: `other-${nth}`, plugins: [plugin] });
  });
}

function nad(name: string, config: JsonObject): JsonObject {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace, uid: podUid(name), creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { config: JSON.stringify(config) },
  };
}
