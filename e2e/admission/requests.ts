import type { ApiRequest, User } from "./api.ts";

export const networksKey = "k8s.v1.cni.cncf.io/networks";
export const defaultNetworkKey = "v1.multus-cni.io/default-network";
export const statusKey = "k8s.v1.cni.cncf.io/network-status";

/** A namespace that is not exempt from anything. */
export const tenant = "tenant";
export const ownNamespace = "kube-system";

const author: User = { name: "author" };
export const kubelet: User = { name: "system:node:node-a" };
export const plexusd = (node?: string): User => ({
  name: `system:serviceaccount:${ownNamespace}:plexusd`,
  ...(node !== undefined && { node }),
});

const definitions = (namespace: string): string =>
  `/apis/k8s.cni.cncf.io/v1/namespaces/${namespace}/network-attachment-definitions`;

function definition(name: string, config: string, labels = {}): object {
  return {
    ...{ apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" },
    ...{ metadata: { name, labels }, spec: { config } },
  };
}

export function createDefinition(
  config: string,
  { namespace = tenant, name = "new", labels = {} } = {},
): ApiRequest {
  const body = definition(name, config, labels);
  return { method: "POST", path: definitions(namespace), body, user: author };
}

export function changeDefinition(name: string, body: object, namespace = tenant): ApiRequest {
  return { method: "PATCH", path: `${definitions(namespace)}/${name}`, body, user: author };
}

export function deleteDefinition(name: string, namespace = tenant): ApiRequest {
  return { method: "DELETE", path: `${definitions(namespace)}/${name}`, user: author };
}

type Annotations = Readonly<Record<string, string | null>>;

const container = { name: "main", image: "image" };

const pods = `/api/v1/namespaces/${tenant}/pods`;

export function createPod(
  annotations: Annotations,
  { name = "new", nodeName = "" } = {},
): ApiRequest {
  const spec = { containers: [container], ...(nodeName !== "" && { nodeName }) };
  const tolerations = [{ operator: "Exists" }];
  const metadata = { name, annotations };
  const body = { apiVersion: "v1", kind: "Pod", metadata, spec: { ...spec, tolerations } };
  return { method: "POST", path: pods, body, user: author };
}

/** A change of a pod's annotations, or of what else `body` has. */
export function changePod(
  name: string,
  annotations: Annotations,
  { subresource = "", body = {} } = {},
): ApiRequest {
  const path = `${pods}/${name}${subresource}`;
  return { method: "PATCH", path, body: { metadata: { annotations }, ...body }, user: author };
}

/** A pod gets the annotations of its binding. */
export function bindPod(name: string, annotations: Annotations): ApiRequest {
  const target = { apiVersion: "v1", kind: "Node", name: "node-a" };
  const body = { apiVersion: "v1", kind: "Binding", metadata: { name, annotations }, target };
  return { method: "POST", path: `${pods}/${name}/binding`, body, user: author };
}

const group = (kind: string): string => (/Job/.test(kind) ? "batch" : "apps");

/** A workload whose pods have these annotations. */
export function createWorkload(kind: string, annotations: Annotations): ApiRequest {
  const labels = { app: "a" };
  const template = { metadata: { labels, annotations }, spec: { containers: [container] } };
  const ended = { ...template, spec: { ...template.spec, restartPolicy: "Never" } };
  const specs: Readonly<Record<string, object>> = {
    Deployment: { selector: { matchLabels: labels }, template },
    DaemonSet: { selector: { matchLabels: labels }, template },
    StatefulSet: { selector: { matchLabels: labels }, serviceName: "a", template },
    Job: { template: ended },
    CronJob: { schedule: "@daily", jobTemplate: { spec: { template: ended } } },
  };
  const body = {
    apiVersion: `${group(kind)}/v1`,
    kind,
    metadata: { name: "new" },
    spec: specs[kind],
  };
  const path = `/apis/${group(kind)}/v1/namespaces/${tenant}/${kind.toLowerCase()}s`;
  return { method: "POST", path, body, user: author };
}
