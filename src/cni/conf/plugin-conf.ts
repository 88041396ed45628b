import { readDocument, readJsonObject } from "#cni/document.ts";
import { isPlainName } from "#cni/names.ts";
import { validAttachmentsKeys } from "#cni/valid-attachments.ts";
import { foldKey, type Json, type JsonObject, membersOf, quoteValue } from "#lib/json.ts";
import { withValue } from "#lib/parsing/document-error.ts";
import type { FieldReader } from "#lib/parsing/field-reader.ts";

/** One plugin of a list: CNI 1.1.0 §1 "Plugin configuration objects". */
export interface PluginConf {
  readonly type: string;
  readonly capabilities: Readonly<Record<string, boolean>>;
  /** The whole object, with the keys of CNI as {@link spellKeys} spells them. */
  readonly raw: JsonObject;
}

/** Keys of CNI, of a list and its plugins. */
const knownKeys = new Map(
  [
    ...["cniVersion", "cniVersions", "name", "disableCheck", "disableGC", "loadOnlyInlinedPlugins"],
    ...["plugins", "type", "capabilities", "ipam", "dns", "args", "runtimeConfig", "prevResult"],
    ...validAttachmentsKeys,
  ].map((key) => [foldKey(key), key]),
);

/** How CNI spells a key; undefined if CNI does not have it. */
export function conventionalKey(key: string): string | undefined {
  return knownKeys.get(foldKey(key));
}

/**
 * Spells the keys of CNI as CNI does, and keeps the last of several: plugins in Go read keys in any
 * case, so that they would not see what Plexus adds under the proper key.
 */
export function spellKeys(written: JsonObject): JsonObject {
  const entries = Object.entries(written);
  return Object.fromEntries(entries.map(([key, value]) => [conventionalKey(key) ?? key, value]));
}

/** Reads one plugin's configuration. @throws CniError 6 for invalid JSON, 7 for wrong fields */
export function parsePluginConf(value: unknown, options: { source: string }): PluginConf {
  const subject = `invalid plugin configuration in ${options.source}`;
  const reading = { subject, reason: "InvalidNetworkConfig", foldCase: true } as const;
  return readDocument(readJsonObject(value, subject), reading, readPlugin);
}

/** Reads a plugin's configuration, which may be part of a larger document. */
export function readPlugin(fields: FieldReader): PluginConf {
  checkWellKnownKeys(fields);
  const raw = spellKeys(fields.raw);
  return { type: readType(fields), capabilities: readCapabilities(fields), raw };
}

/** Checks the types of specified keys, so that no plugin fails on them half-way through a list. */
export function checkWellKnownKeys(fields: FieldReader): void {
  fields.string("name");
  fields.string("cniVersion");
  fields.object("prevResult");
  fields.object("ipam")?.string("type");
  const dns = fields.object("dns");
  dns?.string("domain");
  for (const key of ["nameservers", "search", "options"]) dns?.strings(key);
  fields.elements(validAttachmentsKeys[0]);
}

function readType(fields: FieldReader): string {
  const type = fields.required("type");
  if (type !== "" && !isPlainName(type)) {
    fields.problem("type", `${quoteValue(type)} is not the name of an executable`);
  }
  return type;
}

/** The `capabilities` of a plugin; a value that is not a boolean is a problem, but for null: false. */
export function readCapabilities(fields: FieldReader): Readonly<Record<string, boolean>> {
  const capabilities = fields.object("capabilities");
  if (capabilities === undefined) return {};
  const entries = Object.entries(capabilities.raw).map(([key, value]) => {
    if (typeof value !== "boolean" && value !== null)
      capabilities.problem(key, withValue("must be true or false", value));
    return [key, value === true];
  });
  return Object.fromEntries(entries);
}

/** The IPAM plugin that a plugin's configuration names, in any case; undefined when it names none. */
export function ipamType(conf: Json | undefined): string | undefined {
  const types = membersOf(conf, "ipam").flatMap((ipam) => membersOf(ipam, "type"));
  const type = types.at(-1);
  return typeof type === "string" && isPlainName(type) ? type : undefined;
}

/** Whether limits are for what a pod sends: only then `bandwidth` makes a device. */
export function limitsEgress(limits: Json | undefined): boolean {
  return membersOf(limits, "egressrate").some((rate) => rate !== 0 && rate !== null);
}
