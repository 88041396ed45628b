import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import { parseJson, readDocument } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import { ifNameProblem } from "#cni/names.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { FieldReader } from "#lib/parsing/field-reader.ts";
import { checkNotMetaPlugin } from "#npwg/meta-plugins.ts";

/** A network of a sandbox, as Multus stores it before it attaches it. */
export interface MultusNetwork {
  /** `namespace/name` of the definition, or the CNI name. */
  readonly displayName: string;
  /** The configuration; `isComplete` when it has every key that plugins need. */
  readonly list: NetConfList;
  readonly isComplete: boolean;
  /** The requested interface name; without it, the position decides. */
  readonly ifName?: string;
  /** The pod's requests, as far as the file has them. */
  readonly capabilityArgs: JsonObject;
}

/** The interface of a network: as requested, else by its position. The runtime names the first. */
export function multusIfName(
  { ifName }: MultusNetwork,
  { index, first }: { readonly index: number; readonly first: string },
): string {
  return ifName ?? (index === 0 ? first : `net${index}`);
}

/** More than any pod has: the file is damaged. */
const networksMax = 256;

/**
 * Reads Multus' file of a container's networks (`/var/lib/cni/multus/<container ID>`), an array in
 * the order of attachment.
 * @param cniVersion the version of lists without one, as in Multus
 * @throws CniError 6 or 7 when a part is unusable
 */
export function parseMultusNetworks(
  text: string,
  { source, cniVersion }: { readonly source: string; readonly cniVersion: string },
): MultusNetwork[] {
  const items = parseJson(text, source);
  if (!Array.isArray(items) || items.length === 0 || items.length > networksMax) {
    const reason = `${source}: must be an array of 1 to ${networksMax} networks`;
    throw new CniError("DecodingFailure", reason);
  }
  return items.map((item, i) => readNetwork(item, { source: `${source}[${i}]`, cniVersion }));
}

function readNetwork(
  item: Json,
  { source, cniVersion }: { readonly source: string; readonly cniVersion: string },
): MultusNetwork {
  const options = { subject: source, reason: "DecodingFailure" } as const;
  const { conf, ...network } = readDocument(isJsonObject(item) ? item : {}, options, (fields) => {
    const ips = fields.strings("ipRequest");
    return {
      displayName: fields.string("Name") ?? "",
      ifName: fields.checked("ifnameRequest", ifNameProblem),
      capabilityArgs: omitUndefined({
        ips: ips.length === 0 ? undefined : ips,
        mac: fields.string("macRequest"),
        infinibandGUID: fields.string("infinibandGUIDRequest"),
        deviceID: fields.string("deviceID"),
      }),
      ...readConf(fields, source),
    };
  });
  const parsed = parseNetConfList(conf, { source, unlimited: true });
  const list = parsed.cniVersion === "" ? { ...parsed, cniVersion } : parsed;
  checkNotMetaPlugin(list, source);
  return omitUndefined({ ...network, displayName: network.displayName || list.name, list });
}

/**
 * The configuration that Multus loaded from a file, with the plugins of its subdirectory; else that
 * of the definition, which lacks what only plugins know.
 */
function readConf(
  fields: FieldReader,
  source: string,
): { readonly conf: Json; readonly isComplete: boolean } {
  const loaded = fields.object("CNINetworkConfigList");
  const plugins = loaded?.objects("Plugins") ?? [];
  if (loaded === undefined || plugins.length === 0) {
    const isList = (fields.object("ConfList")?.elements("plugins") ?? []).length > 0;
    return { conf: readBytes(fields, source), isComplete: !isList };
  }
  const conf = {
    cniVersion: loaded.string("CNIVersion") ?? "",
    name: loaded.string("Name") ?? "",
    disableCheck: loaded.value("DisableCheck") === true,
    disableGC: loaded.value("DisableGC") === true,
    plugins: plugins.map((plugin) => readBytes(plugin, source)),
  };
  return { conf, isComplete: true };
}

/** A configuration as Go writes bytes: JSON in base64. */
function readBytes(fields: FieldReader, source: string): Json {
  const text = Buffer.from(fields.required("Bytes"), "base64").toString("utf8");
  return parseJson(text, `${source}: Bytes`);
}
