import { crc32 } from "node:zlib";
import type { V1EndpointSlice, V1ObjectMeta } from "@kubernetes/client-node";
import { ipFamily } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { isSelected, type NetworkPod, type NetworkService } from "./objects.ts";

const managerLabel = "endpointslice.kubernetes.io/managed-by";
const manager = "plexus.dev";
const serviceLabel = "kubernetes.io/service-name";
/** kube-proxy does not get slices with this label. */
const headlessLabel = "service.kubernetes.io/headless";

/** Selects the slices of this controller. */
export const ownSlices = { labelSelector: `${managerLabel}=${manager}` };

/** The API's limit, and how full slices are on average if there are several. */
const maxEndpoints = 1000;
const meanEndpoints = 700;

/** An EndpointSlice. */
export type Slice = V1EndpointSlice & { readonly metadata: V1ObjectMeta };

/** The key of a slice's Service. */
export function serviceKeyOf({ metadata: { namespace, labels } }: Slice): string {
  return `${namespace}/${labels?.[serviceLabel]}`;
}

/** The slices of a Service: one of a family, or more if one would be too long, or pods have other ports. */
export function slicesOf(service: NetworkService, pods: Iterable<NetworkPod>) {
  const endpoints = [...pods]
    .flatMap((pod) => endpointsOf(service, pod))
    .toSorted((a, b) => `${a.addresses}`.localeCompare(`${b.addresses}`));
  const groups = Map.groupBy(endpoints, ({ group }) => group);
  return [...groups].flatMap(([group, members]) => {
    const doublings = Math.ceil(Math.log2(members.length / meanEndpoints));
    const parts = members.length > maxEndpoints ? 2 ** doublings : 1;
    // By address, so that no other endpoint changes its slice.
    const byPart = Map.groupBy(members, ({ addresses: [address = ""] }) => crc32(address) % parts);
    return [...byPart].map(([part, endpoints]) => ({
      ...{ apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice" },
      ...(JSON.parse(group) as Pick<V1EndpointSlice, "addressType" | "ports">),
      metadata: metadataOf(service, crc32(`${group}${part}`).toString(16)),
      endpoints: endpoints.map(({ group: _, ...endpoint }) => endpoint),
    }));
  });
}

function endpointsOf(service: NetworkService, pod: NetworkPod) {
  const { spec, network, name } = service;
  if (!isSelected(pod, service) || !(pod.isReady || spec.publishNotReadyAddresses)) return [];
  const { hostname, subdomain, nodeName, targetRef } = pod;
  const ports = (spec.ports ?? []).flatMap(({ targetPort, port, ...each }) => {
    const { protocol = "TCP", appProtocol, name = "" } = each;
    const named = pod.ports.find((own) => own.name === targetPort && own.protocol === protocol);
    const number = typeof targetPort === "string" ? named?.containerPort : targetPort || port;
    return number === undefined ? [] : { name, protocol, appProtocol, port: number };
  });
  const ofPod = { nodeName, targetRef, hostname: subdomain === name ? hostname : undefined };
  return (pod.addresses.get(network) ?? []).map((address) => ({
    group: JSON.stringify({ addressType: `IPv${ipFamily(address)}`, ports }),
    ...{ addresses: [address], conditions: { ready: true }, ...omitUndefined(ofPod) },
  }));
}

function metadataOf({ namespace, name, uid, spec }: NetworkService, suffix: string) {
  return {
    ...{ namespace, name: `${name}-plexus-${suffix}` },
    labels: {
      ...{ [managerLabel]: manager, [serviceLabel]: name },
      ...(spec.clusterIP === "None" && { [headlessLabel]: "" }),
    },
    ownerReferences: [{ apiVersion: "v1", kind: "Service", name, uid, controller: true }],
  };
}
