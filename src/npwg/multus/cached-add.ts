import { type CniArgs, formatCniArgs } from "#cni/args.ts";
import { parseJson, readDocument } from "#cni/document.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { FieldReader } from "#lib/parsing/field-reader.ts";

/** The key of an ADD in libcni's cache. */
export interface CachedAddKey {
  readonly network: string;
  readonly containerId: string;
  readonly ifName: string;
}

/** An ADD in libcni's cache, kept for its DEL. */
export interface CachedAdd {
  readonly cniArgs: CniArgs;
  readonly capabilityArgs: JsonObject;
  /** The configuration given to libcni; absent in caches of old releases. */
  readonly conf?: Json;
  readonly result?: JsonObject;
}

/** The name of the file in a `results` directory of libcni. */
export function cachedAddFileName({ network, containerId, ifName }: CachedAddKey): string {
  return `${network}-${containerId}-${ifName}`;
}

/**
 * Reads a file of libcni's cache. Releases before 0.8 stored only the result.
 * @throws CniError 6 when it belongs to another attachment or is unusable
 */
export function parseCachedAdd(text: string, key: CachedAddKey): CachedAdd {
  const subject = `cached result ${cachedAddFileName(key)}`;
  const reason = "DecodingFailure";
  return readDocument(parseJson(text, subject), { subject, reason }, (fields) => {
    if (!fields.has("kind")) return { cniArgs: [], capabilityArgs: {}, result: fields.raw };
    const { network: networkName, containerId, ifName } = key;
    const expected = { networkName, containerId, ifName, kind: "cniCacheV1" };
    for (const [name, value] of Object.entries(expected)) {
      if (fields.value(name) !== value) fields.mismatch(name, JSON.stringify(value));
    }
    return omitUndefined({
      cniArgs: readCniArgs(fields),
      capabilityArgs: fields.object("capabilityArgs")?.raw ?? {},
      conf: readConf(fields, subject),
      result: fields.object("result")?.raw,
    });
  });
}

function readCniArgs(fields: FieldReader): CniArgs {
  return fields.elements("cniArgs").flatMap((pair, i) => {
    const [key, value, ...rest] = Array.isArray(pair) ? pair : [];
    if (typeof key !== "string" || typeof value !== "string" || rest.length > 0) {
      fields.problem(`cniArgs[${i}]`, "must be a key and a value");
      return [];
    }
    formatCniArgs([[key, value]]);
    return [[key, value] as const];
  });
}

function readConf(fields: FieldReader, subject: string): Json | undefined {
  const bytes = fields.string("config");
  if (bytes === undefined) return undefined;
  const conf = parseJson(Buffer.from(bytes, "base64").toString("utf8"), `${subject}: config`);
  return isJsonObject(conf) ? conf : undefined;
}
