import { CniError } from "#cni/error.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { errorMessage } from "#lib/error-message.ts";
import { isJsonObject, quoteValue } from "#lib/json.ts";
import { DocumentError } from "#lib/parsing/document-error.ts";
import { readFields } from "#lib/parsing/field-reader.ts";
import { parseYamlDocuments } from "#lib/parsing/yaml.ts";
import { type NetworkAttachmentDefinition, parseNad } from "#npwg/nad.ts";
import { describeObject, readObjectMeta } from "#npwg/object-meta.ts";

/** The objects of one manifest file. */
export interface ManifestObjects {
  readonly pods: Pod[];
  readonly nads: NetworkAttachmentDefinition[];
}

/** An unusable file; the message names file, document and key. */
export class ManifestError extends Error {
  override readonly name = "ManifestError";
}

/** Reads a YAML or JSON file. @throws ManifestError naming the file, the document and the key */
export function parseManifestFile(text: string, file: string): ManifestObjects {
  const objects: ManifestObjects = { pods: [], nads: [] };
  for (const [index, value] of documentsOf(text, file).entries()) {
    if (value !== null) addObject(value, { objects, where: nameOf(file, index) });
  }
  return objects;
}

function documentsOf(text: string, file: string): readonly unknown[] {
  const values: unknown[] = [];
  try {
    for (const value of parseYamlDocuments(text)) values.push(value);
    return values;
  } catch (cause) {
    const where = nameOf(file, values.length);
    throw new ManifestError(`${where}: ${errorMessage(cause)}`, { cause });
  }
}

function nameOf(file: string, index: number): string {
  return `${file}, document ${index + 1}`;
}

function addObject(value: unknown, into: { objects: ManifestObjects; where: string }): void {
  const { objects, where } = into;
  const kind = isJsonObject(value) ? value.kind : undefined;
  if (kind === "List") {
    for (const [index, item] of check(where, () => parseList(value)).entries()) {
      addObject(item, { objects, where: `${where}, item ${index + 1}` });
    }
  } else if (kind === "Pod") {
    objects.pods.push(check(where, () => parsePod(value)));
  } else if (kind === "NetworkAttachmentDefinition") {
    objects.nads.push(check(where, () => parseNad(value, { isManifest: true })));
  } else {
    throw new ManifestError(
      `${where}: kind is ${quoteValue(kind)}, not Pod, NetworkAttachmentDefinition or List`,
    );
  }
}

function parseList(value: unknown): readonly unknown[] {
  return readFields(value, { subject: "List" }, (fields) => {
    if (!fields.has("items")) fields.problem("items", "is missing");
    return fields.elements("items");
  });
}

/** A pod without UID stands for any pod of its name. */
function parsePod(value: unknown): Pod {
  return readFields(value, { subject: describeObject("Pod", value) }, (fields) => {
    if (fields.value("apiVersion") !== "v1") fields.mismatch("apiVersion", '"v1"');
    const metadata = readObjectMeta(fields, { isManifest: true });
    const uid = fields.object("metadata")?.string("uid") ?? "";
    return { ...metadata, uid };
  });
}

function check<T>(where: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof DocumentError || error instanceof CniError)) throw error;
    throw new ManifestError(`${where}: ${error.message}`, { cause: error });
  }
}
