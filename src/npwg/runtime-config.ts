import type { CniArgs } from "#cni/args.ts";
import { enabledCapabilities, type NetConfList, withPluginKeys } from "#cni/conf/conf.ts";
import { ipamType } from "#cni/conf/plugin-conf.ts";
import { readDocument } from "#cni/document.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { Bandwidth, NetworkSelection } from "#npwg/selection/network-selection.ts";

/**
 * The capability arguments that an element asks for, in the shapes of CNI's CONVENTIONS.md
 * (multi-network specification v1.1 §4.1.2.1.3 to 8; `infinibandGUID` and `deviceID` as Multus).
 */
export function requestedCapabilities(selection: NetworkSelection): JsonObject {
  const { ips, mac, portMappings, bandwidth, infinibandGuid, deviceId } = selection;
  return omitUndefined({
    ips: ips === undefined ? undefined : [...ips],
    mac,
    portMappings: portMappings?.map((mapping): JsonObject => ({ ...mapping })),
    bandwidth: bandwidth === undefined ? undefined : withBursts(bandwidth),
    infinibandGUID: infinibandGuid,
    deviceID: deviceId,
  });
}

/**
 * IPAM plugins that read `IP` in CNI_ARGS as one address and fail on a list. All others get the list, as from Multus:
 * `static` and `whereabouts` read it, and `whereabouts` reads nothing else.
 */
const singleAddressIpam: ReadonlySet<string> = new Set(["host-local", "calico-ipam", "spiderpool"]);

/**
 * The CNI_ARGS that an element asks for, which Multus passes besides the capabilities and some plugins read
 * instead of them. Several addresses are one list with commas, which {@link singleAddressIpam} does not get.
 */
export function requestedCniArgs(
  { ips = [], mac }: NetworkSelection,
  { plugins }: NetConfList,
): CniArgs {
  const takesList = !plugins.some(({ raw }) => singleAddressIpam.has(ipamType(raw) ?? ""));
  return [
    ...(mac === undefined ? [] : [["MAC", mac] as const]),
    ...(ips.length === 1 || (ips.length > 1 && takesList) ? [["IP", ips.join(",")] as const] : []),
  ];
}

function withBursts(bandwidth: Bandwidth): JsonObject {
  const { ingressRate, egressRate } = bandwidth;
  return omitUndefined({
    ingressRate,
    ingressBurst: bandwidth.ingressBurst ?? defaultBurst(ingressRate),
    egressRate,
    egressBurst: bandwidth.egressBurst ?? defaultBurst(egressRate),
  });
}

/** 64 KiB, the largest packet that segmentation offload hands to a queue; with less, none of them passes. */
const minBurstBits = 64 * 1024 * 8;

/** The largest burst that fits the kernel's token bucket whatever the plugin; kubelet's own default. */
const maxBurstBits = 2 ** 31 - 1;

/**
 * The burst for a rate that comes without one, which the reference bandwidth plugin refuses
 * (§4.1.2.1.8.2 leaves the value to us): a tenth of a second at the full rate, within bounds. The runtimes' own
 * default, 2³¹ bits and more, lets the first 256 MB pass unlimited.
 */
function defaultBurst(rate: number | undefined): number | undefined {
  if (rate === undefined) return undefined;
  return Math.min(maxBurstBits, Math.max(minBurstBits, Math.ceil(rate / 10)));
}

/**
 * Capabilities that some plugin of the network must declare when they are asked for, else the request would be
 * passed over in silence. The specification asks it of the first four; `deviceID` is left out, as
 * plugins also take it from their own configuration.
 */
const mandatoryCapabilities = ["ips", "mac", "portMappings", "bandwidth", "infinibandGUID"];

/** Capabilities that have a key of {@link requestedCniArgs}, too. */
const cniArgsCapabilities = ["ips", "mac"];

/** What happens to a request that no plugin takes, by the keys of the configuration. */
export interface RequestRules {
  /** Of `mac` and `ips`, which have a place in CNI_ARGS. */
  readonly undeclaredRequests: "fail" | "cniArgs";
  /** Of all others. */
  readonly ignoredRequests: "fail" | "warn";
}

/**
 * Refuses a request that no plugin of the network would serve (§4.1.2.1.3.2, .4.2, .7.2, .8.2).
 *
 * @param display names the network in the message
 * @throws CniError 100 naming every such key, unless the rules accept it
 */
export function checkCapabilities(
  list: NetConfList,
  requested: JsonObject,
  { display, undeclaredRequests, ignoredRequests }: RequestRules & { readonly display: string },
): void {
  const refused = mandatoryCapabilities.filter(
    (key) =>
      isUndeclared(list, requested, key) &&
      (cniArgsCapabilities.includes(key)
        ? undeclaredRequests === "fail"
        : ignoredRequests === "fail"),
  );
  if (refused.length === 0) return;
  const keys = refused.map((key) => `"${key}"`).join(", ");
  throw new CniError(
    "UndeclaredRequest",
    `network "${display}": no plugin of it has the capability ${keys} that the pod's annotation asks for`,
  );
}

/** The requested capabilities that reach no plugin of the network in any way. */
export function unservedCapabilities(list: NetConfList, requested: JsonObject): string[] {
  return mandatoryCapabilities.filter(
    (key) => isUndeclared(list, requested, key) && !cniArgsCapabilities.includes(key),
  );
}

function isUndeclared(list: NetConfList, requested: JsonObject, key: string): boolean {
  return requested[key] !== undefined && !enabledCapabilities(list).has(key);
}

/**
 * The network with the annotation's `cni-args` in every plugin's `args.cni`, where they win over
 * those of the NetworkAttachmentDefinition key by key (§4.1.2.1.6.2).
 *
 * @throws CniError 7 when a plugin's own `args` or `args.cni` is no object.
 */
export function withCniArgs(list: NetConfList, cniArgs: JsonObject | undefined): NetConfList {
  if (cniArgs === undefined) return list;
  return withPluginKeys(list, (plugin, index) => {
    const subject = `network "${list.name}": plugins[${index}]`;
    const code = CniErrorCode.InvalidNetworkConfig;
    const args = readDocument(plugin.raw, { subject, code }, (fields) => {
      const own = fields.object("args");
      return { ...own?.raw, cni: { ...own?.object("cni")?.raw, ...cniArgs } };
    });
    return { args };
  });
}
