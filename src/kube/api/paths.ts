/** Paths of the API server, with names percent-encoded. */
export const apiPaths = {
  pods: "/api/v1/pods",
  nads: "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions",
  nadCrd:
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/network-attachment-definitions.k8s.cni.cncf.io",
  pod: ({ namespace, name }: ObjectName): string =>
    `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}`,
  podsOf: (namespace: string): string => `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`,
  nad: ({ namespace, name }: ObjectName): string =>
    `/apis/k8s.cni.cncf.io/v1/namespaces/${encodeURIComponent(namespace)}/network-attachment-definitions/${encodeURIComponent(name)}`,
  events: (namespace: string): string =>
    `/api/v1/namespaces/${encodeURIComponent(namespace)}/events`,
  daemonSet: ({ namespace, name }: ObjectName): string =>
    `/apis/apps/v1/namespaces/${encodeURIComponent(namespace)}/daemonsets/${encodeURIComponent(name)}`,
  serviceAccounts: (namespace: string): string =>
    `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts`,
  token: ({ namespace, name }: ObjectName): string =>
    `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${encodeURIComponent(name)}/token`,
  resourceClaim: ({ namespace, name }: ObjectName): string =>
    `/apis/resource.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/resourceclaims/${encodeURIComponent(name)}`,
  serviceCidrs: "/apis/networking.k8s.io/v1/servicecidrs",
  services: "/api/v1/services",
  endpointSlices: "/apis/discovery.k8s.io/v1/endpointslices",
  endpointSlice: ({ namespace = "", name = "" }: Partial<ObjectName>): string =>
    `/apis/discovery.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/endpointslices/${encodeURIComponent(name)}`,
  leases: (namespace: string): string =>
    `/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/leases`,
  lease: ({ namespace, name }: ObjectName): string =>
    `/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/leases/${encodeURIComponent(name)}`,
  namespaces: "/api/v1/namespaces",
  node: (name: string): string => `/api/v1/nodes/${encodeURIComponent(name)}`,
} as const;

/** An object with a namespace. */
export interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}
