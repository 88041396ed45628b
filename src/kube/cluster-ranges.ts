import type { ClusterRanges } from "#engine/ports/cluster.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { addressBits, ipFamily, tryParseIp, tryParseNetwork } from "#lib/ip.ts";
import { type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { LiveGetter } from "./live-get.ts";

/** How old an answer may be: new ServiceCIDRs are rare. */
const maxAgeMs = 60_000;

/** The cluster's ranges, read when a pod needs them. While the API server is unavailable, the last ones count. */
export class ApiClusterRanges {
  readonly #live: LiveGetter;
  readonly #nodeName: string | undefined;
  #known: ClusterRanges | undefined;
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(live: LiveGetter, nodeName: string | undefined) {
    this.#live = live;
    this.#nodeName = nodeName;
  }

  /** @throws CniError 11 if they are not known, and the API server does not answer in time */
  async get(signal: AbortSignal | undefined): Promise<ClusterRanges> {
    const before = this.#known;
    if (before !== undefined && performance.now() - this.#askedAt < maxAgeMs) return before;
    this.#askedAt = performance.now();
    const reading = this.#read(signal);
    const read = await (before === undefined ? reading : reading.catch(() => before));
    // Of two API servers, one may not have ServiceCIDRs yet.
    this.#known = { ...before, ...read };
    return this.#known;
  }

  async #read(signal: AbortSignal | undefined): Promise<ClusterRanges> {
    const read = (object: string, path: string) =>
      this.#live.get({ object, path, isShared: true }, signal);
    const name = this.#nodeName;
    const [services, node] = await Promise.all([
      read("the ServiceCIDRs", apiPaths.serviceCidrs),
      name === undefined ? undefined : read(`Node ${name}`, apiPaths.node(name)),
    ]);
    return omitUndefined({ services: services && servicesOf(services), node: addressesOf(node) });
  }
}

function servicesOf({ items }: JsonObject): string[] {
  const all = objectsOf(items).flatMap(({ spec }) => objectOf(spec).cidrs ?? []);
  return all.filter((each) => typeof each === "string").filter((each) => tryParseNetwork(each));
}

function addressesOf(node: JsonObject | undefined): string[] {
  return objectsOf(objectOf(node?.status).addresses).flatMap(({ type, address }) => {
    const ip = typeof address === "string" ? tryParseIp(address) : undefined;
    return type === "InternalIP" && ip !== undefined ? `${ip}/${addressBits[ipFamily(ip)]}` : [];
  });
}
