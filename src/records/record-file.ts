import { createHash } from "node:crypto";
import * as z from "zod";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { AttachmentRecord, RecordKey } from "#engine/record.ts";
import type { Json, JsonObject } from "#lib/json.ts";

/** The schema that this version writes. It reads the first one as well. */
const recordSchemaVersion = 2;

const jsonObject = z.record(z.string(), z.custom<Json>()) as z.ZodType<JsonObject>;

const firstAttachmentSchema = z.strictObject({
  displayName: z.string(),
  isDefault: z.boolean(),
  ifName: z.string().min(1),
  conf: jsonObject,
  cniArgs: z.array(z.tuple([z.string(), z.string()])),
  capabilityArgs: jsonObject,
  searchPath: z.array(z.string()),
  defaultRoute: z.array(z.string()).exactOptional(),
  result: jsonObject.exactOptional(),
});

const attachmentSchema = z.strictObject({
  ...firstAttachmentSchema.shape,
  state: z.enum(["planned", "attempted", "attached"]),
  device: z
    .strictObject({ resourceName: z.string(), id: z.string(), source: z.string() })
    .exactOptional(),
});

const firstRecordSchema = z.strictObject({
  containerId: z.string().min(1),
  ifName: z.string().min(1),
  netns: z.string(),
  cniVersion: z.string(),
  pod: z.strictObject({ namespace: z.string(), name: z.string(), uid: z.string() }).exactOptional(),
  createdAt: z.string(),
  attachments: z.array(firstAttachmentSchema),
});

const recordSchema = z.strictObject({
  ...firstRecordSchema.shape,
  bootId: z.string(),
  attachments: z.array(attachmentSchema),
  pendingStatus: z.record(z.string(), z.string()).exactOptional(),
  teardown: z
    .strictObject({
      firstFailedAt: z.string(),
      failedAt: z.string(),
      attempts: z.number(),
      lastError: z.string(),
    })
    .exactOptional(),
});

/** How far the ADD had come is not in the first schema, so that every attachment has to be detached. */
const upgradedRecordSchema = firstRecordSchema.transform(
  (record): AttachmentRecord => ({
    ...record,
    bootId: "",
    attachments: record.attachments.map((attachment) => ({
      ...attachment,
      state: attachment.result === undefined ? "attempted" : "attached",
    })),
  }),
);

const schemas: Readonly<Record<number, z.ZodType<AttachmentRecord>>> = {
  1: upgradedRecordSchema,
  [recordSchemaVersion]: recordSchema,
};

const headPattern = /^\{"schema":(\d+),"sha256":"([0-9a-f]{64})","record":/;

/** The text of a record's file: JSON, with a checksum of the bytes of the member `record`. */
export function formatRecord(record: AttachmentRecord): string {
  const body = JSON.stringify(record);
  return `{"schema":${recordSchemaVersion},"sha256":"${sha256(body)}","record":${body}}\n`;
}

/**
 * The record in a file's text.
 * @throws CniError 6 naming the file when it is cut short, altered, has another schema, or belongs
 *   to another sandbox
 */
export function parseRecord(
  text: string,
  { path, key }: { readonly path: string; readonly key: RecordKey },
): AttachmentRecord {
  const head = headPattern.exec(text);
  if (head === null || !text.endsWith("}\n")) {
    throw damaged(path, "it is not an attachment record, or it is cut short");
  }
  const schema = schemas[Number(head[1])];
  if (schema === undefined) {
    const known = Object.keys(schemas).join(" and ");
    throw damaged(path, `it has schema ${head[1]}, this version reads ${known}`);
  }
  const body = text.slice(head[0].length, -2);
  if (sha256(body) !== head[2]) throw damaged(path, "its checksum does not match");
  const parsed = schema.safeParse(JSON.parse(body));
  if (!parsed.success) throw damaged(path, z.prettifyError(parsed.error).replaceAll("\n", " "));
  const { containerId, ifName } = parsed.data;
  if (containerId !== key.containerId || ifName !== key.ifName) {
    throw damaged(path, `it belongs to interface ${ifName} of container ${containerId}`);
  }
  return parsed.data;
}

function damaged(path: string, reason: string): CniError {
  return new CniError(
    CniErrorCode.DecodingFailure,
    `attachment record ${path} is unusable: ${reason}`,
  );
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
