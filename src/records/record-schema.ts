import type { AttachmentRecord } from "#engine/record/record.ts";
import { withValue } from "#lib/parsing/document-error.ts";
import { type FieldReader, readFields } from "#lib/parsing/field-reader.ts";
import { reasonRows } from "#lib/reasons.ts";
import { ProtocolError } from "#protocol/frame.ts";

/** The only schema that this version reads and writes. */
export const recordSchemaVersion = "2";

/** Reads a record. @throws ProtocolError for another schema, DocumentError naming wrong members */
export function readRecord(schema: string, value: unknown): AttachmentRecord {
  if (schema !== recordSchemaVersion) {
    throw new ProtocolError(`it has schema ${schema}, this version reads ${recordSchemaVersion}`);
  }
  readFields(value, { subject: "content" }, checkRecord);
  return value as AttachmentRecord;
}

function checkRecord(record: FieldReader): void {
  const required = ["containerId", "ifName", "netns", "cniVersion", "createdAt", "bootId"];
  const marks = ["addEnded", "hasLostUpdate"];
  const owed = ["pendingStatus", "clusterRoutes", "teardown"];
  const optional = ["listName", "netnsProcess", "pod", ...marks, ...owed];
  checkKeys(record, { required: [...required, "clockMs", "attachments"], optional });
  for (const key of [...required, "listName", "netnsProcess"]) record.string(key);
  record.integer("clockMs");
  for (const key of ["containerId", "ifName"]) record.checked(key, notEmpty);
  const pod = record.object("pod");
  if (pod !== undefined) checkTexts(pod, ["namespace", "name", "uid"]);
  for (const attachment of record.objects("attachments")) checkAttachment(attachment);
  for (const key of marks) {
    if (record.has(key) && record.value(key) !== true) record.mismatch(key, "true, or absent");
  }
  record.stringMap("pendingStatus");
  record.strings("clusterRoutes");
  const teardown = record.object("teardown");
  if (teardown !== undefined) checkTeardown(teardown);
}

const states = ["planned", "attempted", "attached", "detaching", "owed"];

function checkAttachment(attachment: FieldReader): void {
  const objects = ["conf", "capabilityArgs"];
  const required = ["displayName", "isDefault", "ifName", "state", "cniArgs", "searchPath"];
  const lists = ["defaultRoute", "userSpaceInterfaces"];
  const ofHotPlug = ["selection", "addresses", "teardown"];
  const others = ["device", "deviceCount", "definition", "result", "ignoredRequests", "failedAdd"];
  const optional = [...others, ...lists, ...ofHotPlug];
  checkKeys(attachment, { required: [...required, ...objects], optional });
  for (const key of ["displayName", "definition"]) attachment.string(key);
  attachment.checked("ifName", notEmpty);
  attachment.checked("state", oneOf(states));
  if (typeof attachment.value("isDefault") !== "boolean") {
    attachment.mismatch("isDefault", "a boolean");
  }
  for (const key of [...objects, "result", "selection"]) attachment.object(key);
  for (const key of ["searchPath", ...lists]) attachment.strings(key);
  const addresses = attachment.object("addresses");
  for (const name of Object.keys(addresses?.raw ?? {})) addresses?.strings(name);
  checkPairs(attachment, "cniArgs");
  attachment.integer("deviceCount");
  const device = attachment.object("device");
  if (device !== undefined) checkTexts(device, ["resourceName", "id", "source"]);
  for (const ignored of attachment.objects("ignoredRequests")) {
    checkTexts(ignored, ["key", "asked"], ["got"]);
  }
  const teardown = attachment.object("teardown");
  if (teardown !== undefined) checkTeardown(teardown);
  const failed = attachment.object("failedAdd");
  if (failed === undefined) return;
  checkKeys(failed, { required: ["position", "code", "message"] });
  for (const key of ["position", "code"]) failed.integer(key);
  failed.string("message");
}

function checkTeardown(teardown: FieldReader): void {
  const texts = ["firstFailedAt", "failedAt", "lastError"];
  checkKeys(teardown, { required: [...texts, "attempts"], optional: ["missingSince", "reason"] });
  for (const key of texts) teardown.string(key);
  teardown.integer("attempts");
  teardown.checked("reason", oneOf(reasonRows().map(([name]) => name)));
  const time = teardown.object("missingSince");
  if (time === undefined) return;
  checkKeys(time, { required: ["bootId", "clockMs"] });
  time.string("bootId");
  time.integer("clockMs");
}

/** A key that another release added is refused, because writing the record again would lose it. */
function checkKeys(
  fields: FieldReader,
  { required, optional = [] }: { required: readonly string[]; optional?: readonly string[] },
): void {
  fields.refuseOthers([...required, ...optional]);
  for (const key of required) if (!fields.has(key)) fields.problem(key, "is missing");
  for (const [key, value] of Object.entries(fields.raw)) {
    if (value === null) fields.problem(key, "must not be null");
  }
}

/** An object of texts alone. */
function checkTexts(
  fields: FieldReader,
  required: readonly string[],
  optional: readonly string[] = [],
): void {
  checkKeys(fields, { required, optional });
  for (const key of [...required, ...optional]) fields.string(key);
}

function checkPairs(fields: FieldReader, key: string): void {
  for (const [index, pair] of fields.elements(key).entries()) {
    const isText = (value: unknown): boolean => typeof value === "string";
    const isPair = Array.isArray(pair) && pair.length === 2 && pair.every(isText);
    if (!isPair) fields.problem(`${key}[${index}]`, withValue("must be a pair of strings", pair));
  }
}

function notEmpty(text: string): string | undefined {
  return text === "" ? "must not be empty" : undefined;
}

function oneOf(values: readonly string[]): (text: string) => string | undefined {
  return (text) => (values.includes(text) ? undefined : `must be one of ${values.join(", ")}`);
}
