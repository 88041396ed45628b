import { type ConfOptions, type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import { parseJson, readDocument } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import { checkTextLimit, limits } from "#cni/limits.ts";
import { quoteValue } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { FieldReader } from "#lib/parsing/field-reader.ts";
import { describeObject, type ObjectMeta, readObjectMeta } from "./object-meta.ts";

/** The used part of a NetworkAttachmentDefinition (multi-network specification v1.1 §3.2). */
export interface NetworkAttachmentDefinition extends ObjectMeta {
  /** `spec.config`: a CNI conf or conflist in JSON; absent or empty to look on disk by name. */
  readonly config?: string;
}

const nadApiVersion = "k8s.cni.cncf.io/v1";
const nadKind = "NetworkAttachmentDefinition";

/**
 * Reads a NetworkAttachmentDefinition. In a manifest, the namespace is optional, `apiVersion` is
 * required, and there are no unknown keys: the API server checks its objects itself, and omits
 * `apiVersion` and `kind` in lists.
 * @throws CniError 7 naming every wrong field
 */
export function parseNad(
  object: unknown,
  options: { readonly isManifest: boolean },
): NetworkAttachmentDefinition {
  const subject = describeObject(nadKind, object);
  const reason = "InvalidNetworkConfig";
  return readDocument(object, { subject, reason }, (fields) => {
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
 * The parsed networks of cached definitions. Parsing a long configuration takes milliseconds, and a
 * pod may name it 32 times in every attempt.
 */
const parsedConfs = new WeakMap<NetworkAttachmentDefinition, NetConfList>();

function parseConf(nad: NetworkAttachmentDefinition, unlimited: boolean): NetConfList {
  const { name, config = "" } = nad;
  const source = "spec.config";
  if (!unlimited) checkTextLimit(limits.conf, config, source);
  const conf = parseJson(config, source, "InvalidNetworkConfig");
  const list = parseNetConfList(conf, { source, name, unlimited });
  if (!unlimited) parsedConfs.set(nad, list);
  return list;
}

/**
 * The network of a definition (§3.4.1): its `spec.config`, or if that is absent or empty, what
 * `loadByName` finds on disk. A config without `name` gets the object's name (§3.4.2).
 * @throws CniError naming the definition: 7 for an invalid config, 100 for a long one, otherwise
 * `loadByName`'s code
 */
export async function nadConf(
  nad: NetworkAttachmentDefinition,
  loadByName: (name: string) => Promise<NetConfList>,
  { unlimited = false }: Pick<ConfOptions, "unlimited"> = {},
): Promise<NetConfList> {
  const source = `${nadKind} "${nad.namespace}/${nad.name}"`;
  try {
    if ((nad.config ?? "").trim() === "") return await loadByName(nad.name);
    return parsedConfs.get(nad) ?? parseConf(nad, unlimited);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    const { code, details } = error;
    const reason = error.reason === "InvalidNetworkConfig" ? "InvalidDefinition" : error.reason;
    throw new CniError(code, `${source}: ${error.message}`, { details, reason, cause: error });
  }
}
