import type { NetConfList } from "#cni/conf/conf.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { Result, ResultInterface } from "#cni/result/result.ts";
import { parseCidr, parseIp } from "#lib/ip.ts";
import { parseHardwareAddress } from "./hardware-address.ts";
import type { NetworkSelection } from "./selection/network-selection.ts";

/** An attachment that was made, and with which network. */
interface MadeAttachment {
  /** CNI_IFNAME of its ADD. */
  readonly ifName: string;
  readonly list: NetConfList;
  readonly result: Result;
}

/** One value that the result shows to be another than the pod asked for. */
interface IgnoredRequest {
  readonly key: "ips" | "mac" | "interface" | "deviceID";
  readonly asked: string;
  readonly got: string;
}

/**
 * Compares what a pod asks for with what the plugins say that they did: a plugin may declare a
 * capability and pass over its value, or not read CNI_ARGS. What the result does not show is not compared,
 * as some plugins leave out hardware addresses.
 * @throws CniError 100 naming plugins, keys and values
 */
export function checkRequestsServed(selection: NetworkSelection, made: MadeAttachment): void {
  const ignored = [
    ...ignoredIps(selection, made),
    ...ignoredMac(selection, made),
    ...ignoredIfName(selection, made),
    ...ignoredDevice(selection, made),
  ];
  if (ignored.length === 0) return;
  const sentences = ignored.map(
    ({ key, asked, got }) =>
      `${pluginNames(made.list, key)} ignored the key "${key}": the pod asks for ${asked}, the result has ${got}`,
  );
  throw new CniError(CniErrorCode.InvalidRequest, sentences.join("; "));
}

/** Every address counts, whatever its prefix length: `host-local` gives it that of its range. */
function ignoredIps({ ips = [] }: NetworkSelection, { result }: MadeAttachment): IgnoredRequest[] {
  const given = result.ips.map(({ address }) => address);
  const present = new Set(given.map((address) => parseCidr(address).address));
  const asked = ips.filter((ip) => !present.has(parseIp(ip.split("/")[0] ?? "")));
  const got = given.length === 0 ? "no address" : given.join(", ");
  return asked.length === 0 ? [] : [{ key: "ips", asked: asked.join(", "), got }];
}

function ignoredMac({ mac }: NetworkSelection, made: MadeAttachment): IgnoredRequest[] {
  const got = sandboxInterfaces(made).find(({ name }) => name === made.ifName)?.mac;
  if (mac === undefined || got === undefined || got === "" || canonicalMac(got) === mac) return [];
  return [{ key: "mac", asked: mac, got }];
}

function canonicalMac(mac: string): string {
  return parseHardwareAddress(mac, [6, 8, 20]) ?? mac.toLowerCase();
}

function ignoredIfName({ ifName }: NetworkSelection, made: MadeAttachment): IgnoredRequest[] {
  const names = sandboxInterfaces(made).map(({ name }) => name);
  if (ifName === undefined || names.length === 0 || names.includes(ifName)) return [];
  return [{ key: "interface", asked: ifName, got: names.join(", ") }];
}

const pciAddress = /^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/;

/** Only where both sides are PCI addresses: devices have other identifiers as well. */
function ignoredDevice({ deviceId }: NetworkSelection, made: MadeAttachment): IgnoredRequest[] {
  const asked = deviceId?.toLowerCase() ?? "";
  const got = sandboxInterfaces(made).flatMap(({ pciID }) => pciID?.toLowerCase() || []);
  if (!pciAddress.test(asked) || got.length === 0 || got.includes(asked)) return [];
  return [{ key: "deviceID", asked, got: got.join(", ") }];
}

function sandboxInterfaces({ result }: MadeAttachment): ResultInterface[] {
  return result.interfaces.filter(({ sandbox }) => (sandbox ?? "") !== "");
}

/** The plugins that declare the capability; all of the network when none does. */
function pluginNames({ plugins }: NetConfList, key: string): string {
  const declaring = plugins.filter(({ capabilities }) => capabilities[key] === true);
  const named = (declaring.length === 0 ? plugins : declaring).map(({ type }) => type);
  return `${named.length === 1 ? "plugin" : "plugins"} ${[...new Set(named)].join(", ")}`;
}
