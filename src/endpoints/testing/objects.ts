import type { Json, JsonObject } from "#lib/json.ts";

interface PodOptions {
  readonly namespace?: string;
  readonly labels?: JsonObject;
  readonly isReady?: boolean;
  readonly deletionTimestamp?: string;
  readonly phase?: string;
  readonly hostname?: string;
  readonly subdomain?: string;
  readonly ports?: JsonObject[];
  /** @default these addresses on `default/red` */
  readonly status?: readonly object[];
}

/** A ready Pod with `app: db` on the network `default/red`, as the API server has it. */
export function networkPod(
  name: string,
  ips: readonly string[],
  options: PodOptions = {},
): JsonObject {
  const {
    namespace = "default",
    labels = { app: "db" },
    isReady = true,
    phase = "Running",
  } = options;
  const { hostname, subdomain, deletionTimestamp, ports = [] } = options;
  const entry = { name: "default/red", interface: "net1", ips, default: false, dns: {} };
  const status = JSON.stringify(options.status ?? [entry]);
  return {
    metadata: {
      ...{ namespace, name, uid: `uid-of-${name}`, labels },
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      annotations: { "k8s.v1.cni.cncf.io/network-status": status },
    },
    spec: {
      nodeName: "node-1",
      ...(hostname !== undefined && { hostname }),
      ...(subdomain !== undefined && { subdomain }),
      containers: [{ name: "main", ports }],
    },
    status: { phase, conditions: [{ type: "Ready", status: isReady ? "True" : "False" }] },
  };
}

/** A Service of that network, whose pods have `app: db`. */
export function networkService(
  name: string,
  {
    spec = {},
    annotations = {},
  }: { spec?: JsonObject; annotations?: Record<string, Json | undefined> } = {},
): JsonObject {
  const own = { "plexus.dev/network": "default/red", "plexus.dev/selector": "app=db" };
  const given = Object.entries({ ...own, ...annotations }).filter(
    ([, value]) => value !== undefined,
  );
  return {
    metadata: {
      ...{ namespace: "default", name, uid: `uid-of-${name}` },
      annotations: Object.fromEntries(given) as JsonObject,
    },
    spec: { ports: [{ name: "sql", port: 5432, targetPort: 5432, protocol: "TCP" }], ...spec },
  };
}

/** The Lease of the controllers, which a process holds, or none. */
export function heldLease(holderIdentity: string): JsonObject {
  const metadata = { namespace: "plexus", name: "plexus-endpoints" };
  return { metadata, spec: { holderIdentity } };
}
