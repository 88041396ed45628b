import type { V1Pod, V1Service } from "@kubernetes/client-node";
import { tryParseReachableIp } from "#lib/ip.ts";
import { withValue } from "#lib/parsing/document-error.ts";
import { statusEntries } from "#npwg/network-status.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

/** A pod with networks that has not ended. */
export type NetworkPod = NonNullable<ReturnType<typeof networkPodOf>>;

/** In a network. Users can write any number of them. */
const addressesMax = 16;
const labelsMax = 16;

/** Reads a Pod; undefined if it can be no endpoint. */
export function networkPodOf(object: unknown) {
  const { metadata = {}, spec, status } = object as V1Pod;
  const { namespace = "", name = "", uid = "", labels = {}, annotations = {} } = metadata;
  const text = annotations[networkStatusAnnotation];
  if (text === undefined || /^(Succeeded|Failed)$/.test(status?.phase ?? "")) return undefined;
  const { hostname, subdomain, nodeName, containers = [], initContainers = [] } = spec ?? {};
  const sidecars = initContainers.filter(({ restartPolicy }) => restartPolicy === "Always");
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  return {
    metadata: { namespace, name, uid },
    labels: new Set(Object.entries(labels).map(([key, value]) => `${key}=${value}`)),
    ...{ hostname, subdomain, nodeName },
    isReady: ready?.status === "True",
    isTerminating: metadata.deletionTimestamp !== undefined,
    ports: [...containers, ...sidecars].flatMap(({ ports = [] }) => ports),
    addresses: addressesIn(text),
  };
}

/** By network, whatever users write there. An address of another kind would make a whole slice invalid. */
function addressesIn(status: string): ReadonlyMap<unknown, ReadonlySet<string>> {
  const found = new Map<unknown, Set<string>>();
  for (const { name, ips = [] } of statusEntries(status)) {
    const own = found.get(name) ?? new Set();
    found.set(name, own);
    for (const ip of [ips].flat()) {
      const address = typeof ip === "string" ? tryParseReachableIp(ip) : undefined;
      if (address !== undefined && own.size < addressesMax) own.add(address);
    }
  }
  return found;
}

/** `[prefix/]name=value` */
const label =
  /^([a-z0-9.-]{1,253}\/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?=([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?$/;

/** A Service that is annotated with a network. */
export type NetworkService = NonNullable<ReturnType<typeof networkServiceOf>>;

/** Reads a Service; undefined if it is not annotated. Does not reject an invalid one: its slices stay. */
export function networkServiceOf(object: unknown) {
  const { metadata = {}, spec = {} } = object as V1Service;
  const { namespace = "", name = "", uid = "", annotations = {} } = metadata;
  const { "plexus.dev/network": network, "plexus.dev/selector": selector = "" } = annotations;
  if (network === undefined) return undefined;
  const labels = selector.split(",", labelsMax + 1);
  const problem = [
    !/^[a-z0-9-]{1,63}\/[a-z0-9.-]{1,253}$/.test(network) &&
      withValue("plexus.dev/network must be NAMESPACE/NAME", network),
    !(labels.length <= labelsMax && labels.every((each) => label.test(each))) &&
      withValue(
        `plexus.dev/selector must be LABEL=VALUE, up to ${labelsMax} with commas`,
        selector,
      ),
    spec.selector !== undefined &&
      withValue(
        "create the Service again without spec.selector, whose EndpointSlices would stay",
        spec.selector,
      ),
  ].find((each) => each !== false);
  return { metadata: { namespace, name, uid }, spec, network, labels, problem };
}
