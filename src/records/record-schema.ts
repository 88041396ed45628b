import * as z from "zod";
import { type Reason, reasonCodes } from "#cni/error.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { parseWith } from "#lib/parsing/parse-with.ts";
import { ProtocolError } from "#protocol/frame.ts";

/** The only schema that this version reads and writes. */
export const recordSchemaVersion = "2";

const text = z.string();
const name = z.string().min(1, "must not be empty");
const texts = z.array(text);
const count = z.int().nonnegative();
/** Checked but not copied. */
const json = z.custom<JsonObject>(isJsonObject, "must be an object");

const pod = z.strictObject({ namespace: text, name: text, uid: text });

const teardown = z.strictObject({
  firstFailedAt: text,
  since: z.strictObject({ bootId: text, clockMs: count }).exactOptional(),
  failedAt: text,
  attempts: count,
  lastError: text,
  reason: z.enum(Object.keys(reasonCodes) as Reason[]).exactOptional(),
});

const attachment = z.strictObject({
  displayName: text,
  isDefault: z.boolean(),
  ifName: name,
  state: z.enum(["planned", "attempted", "attached"]),
  conf: json,
  cniArgs: z.array(z.tuple([text, text], "must be a pair of strings")),
  capabilityArgs: json,
  searchPath: texts,
  device: z.strictObject({ resourceName: text, id: text, source: text }).exactOptional(),
  defaultRoute: texts.exactOptional(),
  result: json.exactOptional(),
  ignoredRequests: z
    .array(z.strictObject({ key: text, asked: text, got: text.exactOptional() }))
    .exactOptional(),
  failedAdd: z.strictObject({ position: count, code: count, message: text }).exactOptional(),
  userSpaceInterfaces: texts.exactOptional(),
});

/** A key that another release added is refused, because writing the record again would lose it. */
const record: z.ZodType<AttachmentRecord> = z.strictObject({
  containerId: name,
  ifName: name,
  netns: text,
  cniVersion: text,
  pod: pod.exactOptional(),
  createdAt: text,
  bootId: text,
  attachments: z.array(attachment),
  pendingStatus: z.record(text, text).exactOptional(),
  teardown: teardown.exactOptional(),
});

/** Reads a record. @throws ProtocolError for another schema, DocumentError naming wrong members */
export function readRecord(schema: string, value: unknown): AttachmentRecord {
  if (schema !== recordSchemaVersion) {
    throw new ProtocolError(`it has schema ${schema}, this version reads ${recordSchemaVersion}`);
  }
  return parseWith(record, value, "content");
}
