import type { CniArgs } from "#cni/args.ts";
import { enabledCapabilities, type NetConfList, withPluginKeys } from "#cni/conf/conf.ts";
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
 * The CNI_ARGS that an element asks for, which Multus passes besides the capabilities and some plugins read
 * instead of them. Several addresses are one list with commas, which `static` reads and `host-local` refuses: they
 * are left out where a plugin takes them as the capability `ips`.
 */
export function requestedCniArgs({ ips, mac }: NetworkSelection, list: NetConfList): CniArgs {
  const isRead = ips?.length === 1 || !enabledCapabilities(list).has("ips");
  return [
    ...(mac === undefined ? [] : [["MAC", mac] as const]),
    ...(ips === undefined || !isRead ? [] : [["IP", ips.join(",")] as const]),
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

/**
 * Refuses a request that no plugin of the network would serve (§4.1.2.1.3.2, .4.2, .7.2, .8.2).
 *
 * @param options `display` names the network in the message; `cniArgsSuffice`: what is in CNI_ARGS need
 *   not be declared
 * @throws CniError 100 naming every such key.
 */
export function checkCapabilities(
  list: NetConfList,
  requested: JsonObject,
  { display, cniArgsSuffice = false }: { display: string; cniArgsSuffice?: boolean },
): void {
  const enabled = enabledCapabilities(list);
  const unserved = mandatoryCapabilities.filter(
    (key) =>
      requested[key] !== undefined &&
      !enabled.has(key) &&
      !(cniArgsSuffice && cniArgsCapabilities.includes(key)),
  );
  if (unserved.length === 0) return;
  const keys = unserved.map((key) => `"${key}"`).join(", ");
  throw new CniError(
    CniErrorCode.InvalidRequest,
    `network "${display}": no plugin of it has the capability ${keys} that the pod's annotation asks for`,
  );
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
