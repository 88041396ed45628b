import type { Pod } from "#engine/ports/cluster.ts";
import { errorMessage } from "#lib/error-message.ts";
import { type JsonObject, quoteValue } from "#lib/json.ts";
import { readFields } from "#lib/parsing/field-reader.ts";
import { type NetworkAttachmentDefinition, parseNad } from "#npwg/nad.ts";
import { describeObject, readObjectMeta } from "#npwg/object-meta.ts";
import { type FileObject, type FileProblem, objectsIn } from "./file-objects.ts";

/** The objects of one manifest file. */
export interface ManifestObjects {
  readonly pods: Pod[];
  readonly nads: NetworkAttachmentDefinition[];
}

/** An unusable file; the message names file, line and key. */
export class ManifestError extends Error {
  override readonly name = "ManifestError";

  constructor({ file, line, problem }: FileProblem, cause?: unknown) {
    super(`${file}:${line}: ${problem}`, { cause });
  }
}

/** Reads a YAML or JSON file. @throws ManifestError naming the file, the line and the key */
export function parseManifestFile(text: string, file: string): ManifestObjects {
  const objects: ManifestObjects = { pods: [], nads: [] };
  for (const found of objectsIn(file, text)) {
    if ("problem" in found) throw new ManifestError(found);
    addObject(found, objects);
  }
  return objects;
}

function addObject({ value, problemAt }: FileObject, { pods, nads }: ManifestObjects): void {
  const { kind } = value;
  try {
    if (kind === "Pod") pods.push(parsePod(value));
    else if (kind === "NetworkAttachmentDefinition")
      nads.push(parseNad(value, { isManifest: true }));
    else
      throw new Error(
        `kind is ${quoteValue(kind)}, not Pod, NetworkAttachmentDefinition or List with items`,
      );
  } catch (error) {
    // An object that has braces somewhere is no template here.
    const place = problemAt([], "");
    throw new ManifestError({ ...place, problem: errorMessage(error) }, error);
  }
}

/** A pod without UID stands for any pod of its name. */
function parsePod(value: JsonObject): Pod {
  return readFields(value, { subject: describeObject("Pod", value) }, (fields) => {
    if (fields.value("apiVersion") !== "v1") fields.mismatch("apiVersion", '"v1"');
    const metadata = readObjectMeta(fields, { isManifest: true });
    const uid = fields.object("metadata")?.string("uid") ?? "";
    return { ...metadata, uid };
  });
}
