/** Pods and definitions are in so many namespaces. */
const namespaces = ["scale-0", "scale-1", "scale-2", "scale-3"] as const;
/** The plugin of the definitions. */
export const pluginType = "answer";

/** The namespaces, definitions, Nodes and their pods. */
export function objectsOf(nodes: readonly string[], podsPerNode: number): object[] {
  const labels = { "kubernetes.io/os": "linux" };
  const status = { allocatable: { cpu: "4", memory: "8Gi", pods: "110" } };
  return [
    ...namespaces.map((name) => object("Namespace", { name })),
    ...namespaces.map((namespace) => object("ServiceAccount", { namespace, name: "hollow" })),
    ...Array.from({ length: 1000 }, (_, n) => definition(n)),
    ...nodes.map((name) => object("Node", { name, labels }, { status })),
    ...nodes.flatMap((node) => Array.from({ length: podsPerNode }, (_, n) => pod(node, n))),
  ];
}

/** Services of a network, and pods that no node has: so many for each, with one address there. */
export function servicesOf(services: number, podsOfEach: number): object[] {
  const named = Array.from({ length: services }, (_, n) => {
    return { namespace: `${namespaces[n % namespaces.length]}`, name: `service-${n}` };
  });
  return named.flatMap(({ namespace, name }, n) => {
    const annotations = {
      "plexus.dev/network": `${namespace}/network-0`,
      "plexus.dev/selector": `app=${name}`,
    };
    const spec = { clusterIP: "None", publishNotReadyAddresses: true, ports: [{ port: 80 }] };
    const pods = Array.from({ length: podsOfEach }, (_, k) => {
      const status = statusOf(namespace, `10.${k}.${n >> 8}.${n % 256}`);
      const metadata = {
        ...{ namespace, name: `${name}-${k}`, labels: { app: name } },
        annotations: { "k8s.v1.cni.cncf.io/network-status": status },
      };
      const containers = [{ name: "hollow", image: "hollow" }];
      const none = { schedulerName: "none", serviceAccountName: "hollow", containers };
      return object("Pod", metadata, { spec: none });
    });
    return [object("Service", { namespace, name, annotations }, { spec }), ...pods];
  });
}

/** A network-status with one address in the network of {@link servicesOf}. */
export function statusOf(namespace: string, ip: string): string {
  return JSON.stringify([{ name: `${namespace}/network-0`, interface: "net1", ips: [ip] }]);
}

/** The name of a node's nth pod, which asks for the definition `network-N` of its namespace `scale-N`. */
export function podName(node: string, n: number): Record<"namespace" | "name", string> {
  return { namespace: `${namespaces[n % namespaces.length]}`, name: `${node}-${n}` };
}

function object(kind: string, metadata: object, content: object = {}): object {
  return { apiVersion: "v1", kind, metadata, ...content };
}

/** Of 1 KB. */
function definition(n: number): object {
  const [namespace, name] = [namespaces[n % namespaces.length], `network-${n}`];
  const ranges = Array.from({ length: 20 }, (_, k) => [{ subnet: `10.${k}.${n % 256}.0/24` }]);
  const ipam = { type: "host-local", ranges };
  const config = JSON.stringify({ cniVersion: "1.0.0", name, type: pluginType, ipam });
  const type = { apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" };
  return { ...type, metadata: { namespace, name }, spec: { config } };
}

function pod(nodeName: string, n: number): object {
  const annotations = { "k8s.v1.cni.cncf.io/networks": `network-${n % namespaces.length}` };
  const spec = {
    ...{ nodeName, serviceAccountName: "hollow", tolerations: [{ operator: "Exists" }] },
    containers: [{ name: "hollow", image: "hollow" }],
  };
  return object("Pod", { ...podName(nodeName, n), annotations }, { spec });
}
