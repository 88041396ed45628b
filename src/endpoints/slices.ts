import { hash } from "node:crypto";
import { crc32 } from "node:zlib";
import type { V1EndpointSlice, V1ObjectMeta } from "@kubernetes/client-node";
import { ipFamily } from "#lib/ip.ts";
import type { NetworkPod, NetworkService } from "./objects.ts";

const managerLabel = "endpointslice.kubernetes.io/managed-by";
const manager = "plexus.dev";
const serviceLabel = "kubernetes.io/service-name";
/** kube-proxy does not get slices with this label. */
const headlessLabel = "service.kubernetes.io/headless";

/** Selects the slices of this controller. */
export const ownSlices = { labelSelector: `${managerLabel}=${manager}` };

/** How full the slices of a Service with several are at most, on average: the API's limit is 1,000. */
const meanEndpoints = 700;

/** An EndpointSlice. */
export type Slice = V1EndpointSlice & { readonly metadata: V1ObjectMeta };

/** The name of a slice's Service. */
export function serviceNameOf({ metadata: { labels = {} } }: Slice): string {
  return `${labels[serviceLabel]}`;
}

/** The slices of a Service: one of a family, or more for many pods, or pods with other ports. */
export function slicesOf(service: NetworkService, pods: readonly NetworkPod[]) {
  const endpoints = pods
    .filter((pod) => service.labels.every((each) => pod.labels.has(each)))
    .flatMap((pod) => endpointsOf(service, pod))
    .toSorted((a, b) => (a.order < b.order ? -1 : 1));
  // By a hash of the address, so that no other endpoint changes its slice.
  const parts = 2 ** Math.max(0, Math.ceil(Math.log2(endpoints.length / meanEndpoints)));
  const isHeadless = service.spec.clusterIP === "None";
  const groups = Map.groupBy(endpoints, ({ kind, address }) =>
    JSON.stringify([kind, crc32(address) % parts, isHeadless]),
  );
  const { namespace, name, uid } = service.metadata;
  return [...groups].map(([group, members]) => ({
    ...(JSON.parse(group) as [Pick<Slice, "addressType" | "ports">])[0],
    metadata: {
      ...{ namespace, name: `${name}-plexus-${hash("sha256", group).slice(0, 16)}` },
      labels: {
        [managerLabel]: manager,
        [serviceLabel]: name,
        ...(isHeadless && { [headlessLabel]: "" }),
      },
      ownerReferences: [{ apiVersion: "v1", kind: "Service", name, uid, controller: true }],
    },
    endpoints: members.map(({ endpoint }) => endpoint),
  }));
}

function endpointsOf({ spec, network, metadata }: NetworkService, pod: NetworkPod) {
  const { hostname, subdomain, isReady, isTerminating } = pod;
  if (!(spec.publishNotReadyAddresses || (isReady && !isTerminating))) return [];
  const ports = (spec.ports ?? []).flatMap(({ targetPort, port, ...each }) => {
    const { protocol = "TCP", appProtocol, name = "" } = each;
    const named = pod.ports.find((own) => own.name === targetPort && own.protocol === protocol);
    const number = typeof targetPort === "string" ? named?.containerPort : targetPort || port;
    return number === undefined ? [] : { name, protocol, appProtocol, port: number };
  });
  const { namespace, name, uid } = pod.metadata;
  const ofPod = {
    conditions: { ready: true, serving: isReady, terminating: isTerminating },
    ...{ nodeName: pod.nodeName, targetRef: { kind: "Pod", namespace, name, uid } },
    hostname: subdomain === metadata.name ? hostname : undefined,
  };
  return Array.from(pod.addresses.get(network) ?? []).flatMap((address) => {
    const addressType = `IPv${ipFamily(address)}`;
    const isServed = spec.ipFamilies?.includes(addressType) ?? true;
    const endpoint = { addresses: [address], ...ofPod };
    // Several pods may have an address.
    const order = `${address} ${uid}`;
    return isServed ? { kind: { addressType, ports }, address, order, endpoint } : [];
  });
}
