import { CniErrorCode } from "#cni/error.ts";
import { FieldReader, Problems, readJsonObject } from "#cni/field-reader.ts";
import { type JsonObject, jsonTypeName, quoteValue } from "#lib/json.ts";

/** One plugin of a list: CNI 1.1.0 §1 "Plugin configuration objects". */
export interface PluginConf {
  /** The executable's name. */
  readonly type: string;
  readonly capabilities: Readonly<Record<string, boolean>>;
  /** The whole object as written. */
  readonly raw: JsonObject;
}

/** Plain names only: a type becomes a file name. */
const pluginType = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;

/**
 * Reads one plugin's configuration.
 * @throws CniError 6 when it is not JSON, 7 naming every field that is wrong.
 */
export function parsePluginConf(value: unknown, options: { source: string }): PluginConf {
  const subject = `invalid plugin configuration in ${options.source}`;
  const problems = new Problems();
  const plugin = readPlugin(
    new FieldReader(readJsonObject(value, subject), { path: "", problems }),
  );
  problems.throwIfAny(CniErrorCode.InvalidNetworkConfig, subject);
  return plugin;
}

/** Reads a plugin's configuration from a document of which it may be a part. */
export function readPlugin(fields: FieldReader): PluginConf {
  checkWellKnownKeys(fields);
  return { type: readType(fields), capabilities: readCapabilities(fields), raw: fields.raw };
}

/**
 * Checks the types of the keys that the specification gives a meaning, as Go's library does, so
 * that no plugin fails on them half-way through a list.
 */
export function checkWellKnownKeys(fields: FieldReader): void {
  fields.string("name");
  fields.string("cniVersion");
  fields.object("prevResult");
  fields.object("ipam")?.string("type");
  const dns = fields.object("dns");
  dns?.string("domain");
  for (const key of ["nameservers", "search", "options"]) dns?.strings(key);
  const attachments = fields.value("cni.dev/valid-attachments") ?? [];
  if (!Array.isArray(attachments)) {
    fields.problem(
      "cni.dev/valid-attachments",
      `must be an array, got ${jsonTypeName(attachments)}`,
    );
  }
}

function readType(fields: FieldReader): string {
  const type = fields.string("type");
  if (fields.value("type") === undefined || type === "") fields.problem("type", "is missing");
  else if (type !== undefined && !pluginType.test(type)) {
    fields.problem("type", `${quoteValue(type)} is not the name of an executable`);
  }
  return type ?? "";
}

/** The `capabilities` of a plugin; those that are no booleans are a problem. */
export function readCapabilities(fields: FieldReader): Readonly<Record<string, boolean>> {
  const capabilities = fields.object("capabilities");
  const entries = Object.entries(capabilities?.raw ?? {});
  return Object.fromEntries(
    entries.filter((entry): entry is [string, boolean] => {
      const [key, value] = entry;
      if (typeof value === "boolean") return true;
      capabilities?.problem(key, `must be true or false, got ${quoteValue(value)}`);
      return false;
    }),
  );
}
