import { type ConfOptions, type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import { parseJson, readDocument } from "#cni/document.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { checkTextLimit, limits } from "#cni/limits.ts";
import type { FieldReader } from "#lib/field-reader.ts";
import { quoteValue } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { describeObject, type ObjectMeta, readObjectMeta } from "./object-meta.ts";

/** What is used of a NetworkAttachmentDefinition (multi-network specification v1.1 §3.2). */
export interface NetworkAttachmentDefinition extends ObjectMeta {
  /** `spec.config`: a CNI conf or conflist as JSON text; absent or empty = look on disk by name. */
  readonly config?: string;
}

const nadApiVersion = "k8s.cni.cncf.io/v1";
const nadKind = "NetworkAttachmentDefinition";

/** Where an object comes from. */
export interface NadOptions {
  /**
   * A manifest, written by hand: its namespace may be left out, its apiVersion may not, and an
   * unknown key is a mistake. The API server has seen to all of that, and leaves `apiVersion` and
   * `kind` out of the items of lists.
   */
  readonly isManifest: boolean;
}

/**
 * Reads a Kubernetes object as a NetworkAttachmentDefinition.
 * @throws CniError 7 naming every field that is wrong.
 */
export function parseNad(object: unknown, options: NadOptions): NetworkAttachmentDefinition {
  const subject = describeObject(nadKind, object);
  const code = CniErrorCode.InvalidNetworkConfig;
  return readDocument(object, { subject, code }, (fields) => {
    checkConstant(fields, "apiVersion", nadApiVersion);
    checkConstant(fields, "kind", nadKind);
    if (options.isManifest) checkManifest(fields);
    const config = fields.object("spec")?.string("config");
    return omitUndefined({ ...readObjectMeta(fields, options), config });
  });
}

function checkConstant(fields: FieldReader, key: string, expected: string): void {
  const value = fields.value(key);
  if (value !== undefined && value !== expected) fields.mismatch(key, quoteValue(expected));
}

function checkManifest(fields: FieldReader): void {
  fields.required("apiVersion");
  fields.refuseOthers(["apiVersion", "kind", "metadata", "spec"]);
  fields.object("spec")?.refuseOthers(["config"]);
}

/**
 * The networks of definitions, as long as these are in a cache: a long configuration takes milliseconds
 * to parse, which a pod that names it 32 times must not cost all others on every try.
 */
const parsedConfs = new WeakMap<NetworkAttachmentDefinition, NetConfList>();

function parseConf(
  nad: NetworkAttachmentDefinition,
  config: string,
  unlimited: boolean,
): NetConfList {
  if (!unlimited) checkTextLimit(limits.conf, config, "spec.config");
  const conf = parseJson(config, "spec.config", CniErrorCode.InvalidNetworkConfig);
  const list = parseNetConfList(conf, { source: "spec.config", name: nad.name, unlimited });
  if (!unlimited) parsedConfs.set(nad, list);
  return list;
}

/**
 * The network that a definition describes (§3.4.1): its `spec.config`; else the one that
 * `loadByName` finds on disk under the object's name; else the request fails. An empty config counts as
 * absent, as the API writes it. A config without `name` gets the object's (§3.4.2).
 *
 * @throws CniError naming the definition; 7 for what its config holds, 100 when that is too long,
 *   `loadByName`'s code for the rest.
 */
export async function nadConf(
  nad: NetworkAttachmentDefinition,
  loadByName: (name: string) => Promise<NetConfList>,
  { unlimited = false }: Pick<ConfOptions, "unlimited"> = {},
): Promise<NetConfList> {
  const source = `${nadKind} "${nad.namespace}/${nad.name}"`;
  const config = nad.config ?? "";
  try {
    if (config.trim() === "") return await loadByName(nad.name);
    return parsedConfs.get(nad) ?? parseConf(nad, config, unlimited);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    const { code, details } = error;
    const reason = error.reason === "InvalidNetworkConfig" ? "InvalidDefinition" : error.reason;
    throw new CniError(code, `${source}: ${error.message}`, { details, reason, cause: error });
  }
}
