import { type Document, parseAllDocuments } from "yaml";
import * as z from "zod";
import type { Pod } from "#engine/ports.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";

/** What one manifest file holds. */
export interface ManifestObjects {
  readonly pods: Pod[];
  readonly nads: NetworkAttachmentDefinition[];
}

/** A file that cannot be used; the message names file, document and key. */
export class ManifestError extends Error {
  override readonly name = "ManifestError";
}

const dnsLabel = z.string().regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must be a DNS-1123 label");
const dnsName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/, "must be a DNS-1123 subdomain");
const annotations = z.record(z.string(), z.string()).default({});
const metadata = z.looseObject({
  name: dnsName,
  namespace: dnsLabel.default("default"),
  uid: z.string().default(""),
  annotations,
});

const podSchema = z.looseObject({
  apiVersion: z.literal("v1"),
  kind: z.literal("Pod"),
  metadata,
});

const nadSchema = z.strictObject({
  apiVersion: z.literal("k8s.cni.cncf.io/v1"),
  kind: z.literal("NetworkAttachmentDefinition"),
  metadata,
  spec: z.strictObject({ config: z.string().exactOptional() }).default({}),
});

const listSchema = z.looseObject({ kind: z.literal("List"), items: z.array(z.unknown()) });

/**
 * Reads the documents of one YAML or JSON file.
 * @throws ManifestError naming the file, the document's number and the key
 */
export function parseManifestFile(text: string, file: string): ManifestObjects {
  const objects: ManifestObjects = { pods: [], nads: [] };
  const documents = parseAllDocuments(text, { prettyErrors: true });
  for (const [index, document] of [...documents].entries()) {
    const where = `${file}, document ${index + 1}`;
    const problem = document.errors[0];
    if (problem !== undefined) {
      throw new ManifestError(`${where}: ${problem.message.split("\n")[0]}`, { cause: problem });
    }
    const value = toValue(document, where);
    if (value !== null) addObject(value, { objects, where });
  }
  return objects;
}

/** The document's value; a document may also be refused here, for aliases that multiply it without end. */
function toValue(document: Document.Parsed, where: string): unknown {
  try {
    return document.toJS();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ManifestError(`${where}: ${reason}`, { cause });
  }
}

function addObject(value: unknown, into: { objects: ManifestObjects; where: string }): void {
  const { objects, where } = into;
  const kind =
    typeof value === "object" && value !== null && "kind" in value ? value.kind : undefined;
  if (kind === "List") {
    const { items } = check(listSchema, value, where);
    for (const [index, item] of items.entries()) {
      addObject(item, { objects, where: `${where}, item ${index + 1}` });
    }
  } else if (kind === "Pod") {
    const { metadata: meta } = check(podSchema, value, where);
    objects.pods.push({ ...pick(meta), uid: meta.uid, isStatic: false });
  } else if (kind === "NetworkAttachmentDefinition") {
    const nad = check(nadSchema, value, where);
    const config = nad.spec.config === undefined ? {} : { config: nad.spec.config };
    objects.nads.push({ ...pick(nad.metadata), ...config });
  } else {
    throw new ManifestError(
      `${where}: kind is ${JSON.stringify(kind)}, not Pod, NetworkAttachmentDefinition or List`,
    );
  }
}

function pick(meta: z.infer<typeof metadata>): {
  namespace: string;
  name: string;
  annotations: Record<string, string>;
} {
  return { namespace: meta.namespace, name: meta.name, annotations: meta.annotations };
}

function check<T>(schema: z.ZodType<T>, value: unknown, where: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(
    (issue) => `${issue.path.join(".") || "the object"}: ${issue.message}`,
  );
  throw new ManifestError(`${where}: ${problems.join("; ")}`, { cause: parsed.error });
}
