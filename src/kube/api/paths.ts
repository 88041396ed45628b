/** Paths of the API server, with names percent-encoded. */
export const apiPaths = {
  pods: "/api/v1/pods",
  nads: "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions",
  pod: ({ namespace, name }: ObjectName): string =>
    `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}`,
  nad: ({ namespace, name }: ObjectName): string =>
    `/apis/k8s.cni.cncf.io/v1/namespaces/${encodeURIComponent(namespace)}/network-attachment-definitions/${encodeURIComponent(name)}`,
  events: (namespace: string): string =>
    `/api/v1/namespaces/${encodeURIComponent(namespace)}/events`,
  node: (name: string): string => `/api/v1/nodes/${encodeURIComponent(name)}`,
} as const;

interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}
