import type { CniArgs } from "#cni/args.ts";
import { enabledCapabilities, type NetConfList, withPluginKeys } from "#cni/conf/conf.ts";
import { ipamType } from "#cni/conf/plugin-conf.ts";
import { readDocument } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import { dnsSubdomainProblem } from "#lib/dns-name.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { withValue } from "#lib/parsing/document-error.ts";
import type { Bandwidth, NetworkSelection } from "#npwg/selection/network-selection.ts";

/**
 * The capability arguments of an element, in the format of CNI's CONVENTIONS.md (multi-network
 * specification v1.1 §4.1.2.1.3 to 8; `infinibandGUID` and `deviceID` as in Multus).
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
 * IPAM plugins that expect a single address in `IP` of CNI_ARGS. All others get the list, as from
 * Multus: `static` and `whereabouts` read it, and `whereabouts` reads nothing else.
 */
const singleAddressIpam: ReadonlySet<string> = new Set(["host-local", "calico-ipam", "spiderpool"]);

/**
 * The CNI_ARGS of an element. Multus passes them in addition to the capabilities, and some plugins
 * read only them. Several addresses are separated by commas, except for {@link singleAddressIpam}.
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

/** 64 KiB, the largest packet of segmentation offload; a smaller burst would drop all of them. */
const minBurstBits = 64 * 1024 * 8;

/** The largest burst that fits the kernel's token bucket; also the kubelet's default. */
const maxBurstBits = 2 ** 31 - 1;

/**
 * The burst for a rate without one, which the reference bandwidth plugin rejects (§4.1.2.1.8.2
 * leaves the value open): a tenth of a second at full rate, within limits. The runtimes' default of
 * 2³¹ bits and more does not limit the first 256 MB.
 */
function defaultBurst(rate: number | undefined): number | undefined {
  if (rate === undefined) return undefined;
  return Math.min(maxBurstBits, Math.max(minBurstBits, Math.ceil(rate / 10)));
}

/**
 * Capabilities that a plugin of the network must declare when a pod requests them, because the
 * request would otherwise have no effect. The specification requires it for the first four.
 * `deviceID` is not among them: plugins also read it from their configuration.
 */
const mandatoryCapabilities = ["ips", "mac", "portMappings", "bandwidth", "infinibandGUID"];

/** CNI_ARGS also carry these. */
const cniArgsCapabilities = ["ips", "mac"];

/**
 * Checks that the plugins of a network support the requests (§4.1.2.1.3.2, .4.2, .7.2, .8.2).
 * @throws CniError 100 naming `display` and every unsupported key
 */
export function checkCapabilities(list: NetConfList, requested: JsonObject, display: string): void {
  const refused = undeclared(list, requested);
  if (refused.length === 0) return;
  const keys = refused.map((key) => `"${key}"`).join(", ");
  throw new CniError(
    "UndeclaredRequest",
    `network "${display}": no plugin of it has the capability ${keys} that the pod's annotation asks for`,
  );
}

/** The requested capabilities that reach no plugin in any way. */
export function unservedCapabilities(list: NetConfList, requested: JsonObject): string[] {
  return undeclared(list, requested).filter((key) => !cniArgsCapabilities.includes(key));
}

function undeclared(list: NetConfList, requested: JsonObject): string[] {
  const declared = enabledCapabilities(list);
  return mandatoryCapabilities.filter((key) => requested[key] !== undefined && !declared.has(key));
}

/** Key of an element, and of `args.cni` in a plugin's configuration. */
const claimKey = "ipam-claim-reference";

/**
 * Checks the name of an IPAMClaim, which is one of the pod's namespace (version 1.3, §4.1.2.1.11).
 * @throws CniError 100 with key and value
 */
export function checkClaimReference(selection: NetworkSelection, display: string): void {
  const { ipamClaimReference, cniArgs } = selection;
  const claim = ipamClaimReference ?? cniArgs?.[claimKey];
  if (claim === undefined) return;
  const problem = typeof claim === "string" ? dnsSubdomainProblem(claim) : "must be a string";
  if (problem === undefined) return;
  const reason = `key "${claimKey}": ${withValue(problem, claim)}`;
  throw new CniError("InvalidRequest", `network "${display}": ${reason}`);
}

/**
 * Adds what an element passes to the plugins to every `args.cni`, overriding the definition's keys:
 * `cni-args` (§4.1.2.1.6.2), and the name of an IPAMClaim. For that one the specification names no
 * place; whereabouts reads this one (its pull request 742).
 * @throws CniError 7 when a plugin's `args` or `args.cni` is not an object
 */
export function withCniArgs(
  list: NetConfList,
  { cniArgs, ipamClaimReference: claim }: NetworkSelection,
): NetConfList {
  if (cniArgs === undefined && claim === undefined) return list;
  const requested = claim === undefined ? cniArgs : { ...cniArgs, [claimKey]: claim };
  return withPluginKeys(list, (plugin, index) => {
    const subject = `network "${list.name}": plugins[${index}]`;
    const reason = "InvalidNetworkConfig";
    const args = readDocument(plugin.raw, { subject, reason }, (fields) => {
      const own = fields.object("args");
      return { ...own?.raw, cni: { ...own?.object("cni")?.raw, ...requested } };
    });
    return { args };
  });
}
