import type { NetConfList } from "#cni/conf/conf.ts";
import type { Result, ResultInterface } from "#cni/result/result.ts";
import { parseCidr, parseIp } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { shortened } from "#lib/one-line.ts";
import { parseHardwareAddress } from "./hardware-address.ts";
import { requestedCapabilities, unservedCapabilities } from "./runtime-config.ts";
import type { NetworkSelection } from "./selection/network-selection.ts";

interface MadeAttachment {
  readonly ifName: string;
  readonly list: NetConfList;
  readonly result: Result;
}

/** An ignored request of the pod. */
export interface IgnoredRequest {
  /** The key of the annotation, or its capability. */
  readonly key: string;
  readonly asked: string;
  /** The value in the result; absent when no plugin has the capability. */
  readonly got?: string;
}

/** Plexus's key of {@link IgnoredRequest}s in network-status. Go's decoder ignores unknown keys. */
export const ignoredRequestsKey = "plexus.dev/ignored-requests";

const valueMax = 200;

/**
 * Compares a pod's requests with the result: a plugin may declare a capability and ignore its
 * value, or not read CNI_ARGS. What the result does not contain is not compared, because some
 * plugins omit hardware addresses.
 */
export function ignoredRequests(
  selection: NetworkSelection,
  made: MadeAttachment,
): IgnoredRequest[] {
  return [
    ...ignoredIps(selection, made),
    ...ignoredMac(selection, made),
    ...ignoredIfName(selection, made),
    ...ignoredDevice(selection, made),
    ...unserved(selection, made),
  ].map(clipped);
}

/** The ignored requests of a network, as a sentence. */
export function ignoredText(ignored: readonly IgnoredRequest[], list: NetConfList): string {
  const sentences = ignored.map(({ key, asked, got }) =>
    got === undefined
      ? `no plugin has the capability "${key}": the pod asks for ${asked}`
      : `${pluginNames(list, key)} ignored the key "${key}": the pod asks for ${asked}, the result has ${got}`,
  );
  return sentences.join("; ");
}

/** The short form, without plugins: `ignored mac (asked A, got B)`. */
export function ignoredWords(ignored: readonly IgnoredRequest[]): string {
  const words = ignored.map(
    ({ key, asked, got = "nothing" }) => `${key} (asked ${asked}, got ${got})`,
  );
  return `ignored ${words.join(", ")}`;
}

function clipped({ key, asked, got }: IgnoredRequest): IgnoredRequest {
  return omitUndefined({
    key,
    asked: shortened(asked, valueMax),
    got: got && shortened(got, valueMax),
  });
}

/** Requests that no plugin got; only with a setting that lets such pods start. */
function unserved(selection: NetworkSelection, { list }: MadeAttachment): IgnoredRequest[] {
  const { portMappings, bandwidth, infinibandGuid: infinibandGUID } = selection;
  const asked: Readonly<Record<string, unknown>> = { portMappings, bandwidth, infinibandGUID };
  return unservedCapabilities(list, requestedCapabilities(selection)).map((key) => {
    const value = asked[key];
    return { key, asked: typeof value === "string" ? value : JSON.stringify(value) };
  });
}

/** Prefix lengths are not compared: `host-local` uses its range's. */
function ignoredIps({ ips = [] }: NetworkSelection, { result }: MadeAttachment): IgnoredRequest[] {
  const given = result.ips.map(({ address }) => address);
  const present = new Set(given.map((address) => parseCidr(address).address));
  const asked = ips.filter((ip) => !present.has(parseIp(ip.split("/")[0] ?? "")));
  const got = given.length === 0 ? "no address" : given.join(", ");
  return asked.length === 0 ? [] : [{ key: "ips", asked: asked.join(", "), got }];
}

/**
 * Any pod interface may have the MAC: OVN-Kubernetes puts a primary network on a second interface.
 * If the requested interface shows none, nothing is compared.
 */
function ignoredMac({ mac }: NetworkSelection, made: MadeAttachment): IgnoredRequest[] {
  const links = interfacesInside(made);
  const got = links.find(({ name }) => name === made.ifName)?.mac ?? "";
  if (mac === undefined || got === "") return [];
  if (links.some((link) => parseHardwareAddress(link.mac ?? "", [6, 8, 20]) === mac)) return [];
  return [{ key: "mac", asked: mac, got }];
}

function ignoredIfName({ ifName }: NetworkSelection, made: MadeAttachment): IgnoredRequest[] {
  const names = interfacesInside(made).map(({ name }) => name);
  if (ifName === undefined || names.length === 0 || names.includes(ifName)) return [];
  return [{ key: "interface", asked: ifName, got: names.join(", ") }];
}

const pciAddress = /^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/;

/** Compared only between PCI addresses; devices also have other identifiers. */
function ignoredDevice({ deviceId }: NetworkSelection, made: MadeAttachment): IgnoredRequest[] {
  const asked = deviceId?.toLowerCase() ?? "";
  const got = interfacesInside(made).flatMap(({ pciID }) => pciID?.toLowerCase() || []);
  if (!pciAddress.test(asked) || got.length === 0 || got.includes(asked)) return [];
  return [{ key: "deviceID", asked, got: got.join(", ") }];
}

/** Unlike network-status, also those whose sandbox is no path: any of them may serve a request. */
function interfacesInside({ result }: MadeAttachment): ResultInterface[] {
  return result.interfaces.filter(({ sandbox }) => (sandbox ?? "") !== "");
}

/** The plugins that declare the capability, or all when none does. */
function pluginNames({ plugins }: NetConfList, key: string): string {
  const declaring = plugins.filter(({ capabilities }) => capabilities[key] === true);
  const named = (declaring.length === 0 ? plugins : declaring).map(({ type }) => type);
  return `${named.length === 1 ? "plugin" : "plugins"} ${[...new Set(named)].join(", ")}`;
}
