import type {
  AttachedDevice,
  AttachmentRecord,
  BootTime,
  FailedAdd,
  FailedTeardown,
  RecordedAttachment,
} from "#engine/record/record.ts";
import { type FieldReader, readFields } from "#lib/field-reader.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { IgnoredRequest } from "#npwg/served-requests.ts";
import { ProtocolError } from "#protocol/frame.ts";

/** The schema that this version writes. It reads the first one as well. */
export const recordSchemaVersion = "2";

const states = ["planned", "attempted", "attached"] as const;

const firstRecordKeys = [
  "containerId",
  "ifName",
  "netns",
  "cniVersion",
  "createdAt",
  "attachments",
];
const firstAttachmentKeys = [
  "displayName",
  "isDefault",
  "ifName",
  "conf",
  "cniArgs",
  "capabilityArgs",
  "searchPath",
];

const attachmentOptions = [
  "defaultRoute",
  "result",
  "device",
  "ignoredRequests",
  "userSpaceInterfaces",
  "failedAdd",
];

/**
 * Reads a record of that schema. A record has nothing but what its schema knows: what another release has
 * added must not be lost.
 * @throws ProtocolError when the schema is not known
 * @throws DocumentError naming every member that is wrong
 */
export function readRecord(schema: string, value: unknown): AttachmentRecord {
  if (schema !== recordSchemaVersion && schema !== "1") {
    throw new ProtocolError(`it has schema ${schema}, this version reads 1 and 2`);
  }
  return readFields(value, { subject: "content" }, (fields) => {
    const isFirst = schema === "1";
    if (isFirst) checkKeys(fields, firstRecordKeys, ["pod"]);
    else checkKeys(fields, [...firstRecordKeys, "bootId"], ["pod", "pendingStatus", "teardown"]);
    const read = isFirst ? readFirstAttachment : readAttachment;
    return { ...readSandbox(fields), attachments: fields.objects("attachments").map(read) };
  });
}

/** Everything but the attachments. In the first schema the boot is not known. */
function readSandbox(fields: FieldReader): Omit<AttachmentRecord, "attachments"> {
  return omitUndefined({
    containerId: fields.required("containerId"),
    ifName: fields.required("ifName"),
    netns: text(fields, "netns"),
    cniVersion: text(fields, "cniVersion"),
    pod: readPod(fields.object("pod")),
    createdAt: text(fields, "createdAt"),
    bootId: text(fields, "bootId"),
    pendingStatus: fields.has("pendingStatus") ? fields.stringMap("pendingStatus") : undefined,
    teardown: readTeardown(fields.object("teardown")),
  });
}

function readPod(fields: FieldReader | undefined): AttachmentRecord["pod"] {
  if (fields === undefined) return undefined;
  checkKeys(fields, ["namespace", "name", "uid"]);
  return {
    namespace: text(fields, "namespace"),
    name: text(fields, "name"),
    uid: text(fields, "uid"),
  };
}

function readTeardown(fields: FieldReader | undefined): FailedTeardown | undefined {
  if (fields === undefined) return undefined;
  checkKeys(fields, ["firstFailedAt", "failedAt", "attempts", "lastError"], ["since"]);
  return omitUndefined({
    firstFailedAt: text(fields, "firstFailedAt"),
    since: readBootTime(fields.object("since")),
    failedAt: text(fields, "failedAt"),
    attempts: fields.integer("attempts") ?? 0,
    lastError: text(fields, "lastError"),
  });
}

function readBootTime(fields: FieldReader | undefined): BootTime | undefined {
  if (fields === undefined) return undefined;
  checkKeys(fields, ["bootId", "clockMs"]);
  return { bootId: text(fields, "bootId"), clockMs: fields.integer("clockMs") ?? 0 };
}

/** How far the ADD had come is not in the first schema, so that every attachment has to be detached. */
function readFirstAttachment(fields: FieldReader): RecordedAttachment {
  checkKeys(fields, firstAttachmentKeys, ["defaultRoute", "result"]);
  return { ...readNetwork(fields), state: fields.has("result") ? "attached" : "attempted" };
}

function readAttachment(fields: FieldReader): RecordedAttachment {
  checkKeys(fields, [...firstAttachmentKeys, "state"], attachmentOptions);
  const state = states.find((each) => each === fields.value("state"));
  if (state === undefined) fields.mismatch("state", `one of ${states.join(", ")}`);
  const device = readDevice(fields.object("device"));
  const ignoredRequests = fields.has("ignoredRequests")
    ? fields.objects("ignoredRequests").map(readIgnored)
    : undefined;
  return omitUndefined({
    ...readNetwork(fields),
    ...{ state: state ?? "planned", device, ignoredRequests },
    userSpaceInterfaces: optionalStrings(fields, "userSpaceInterfaces"),
    failedAdd: readFailedAdd(fields.object("failedAdd")),
  });
}

function readFailedAdd(fields: FieldReader | undefined): FailedAdd | undefined {
  if (fields === undefined) return undefined;
  checkKeys(fields, ["position", "code", "message"]);
  return {
    position: fields.integer("position") ?? 0,
    code: fields.integer("code") ?? 0,
    message: text(fields, "message"),
  };
}

function readNetwork(fields: FieldReader): Omit<RecordedAttachment, "state"> {
  const isDefault = fields.value("isDefault");
  if (typeof isDefault !== "boolean") fields.mismatch("isDefault", "a boolean");
  return omitUndefined({
    displayName: text(fields, "displayName"),
    isDefault: isDefault === true,
    ifName: fields.required("ifName"),
    conf: fields.object("conf")?.raw ?? {},
    cniArgs: readPairs(fields, "cniArgs"),
    capabilityArgs: fields.object("capabilityArgs")?.raw ?? {},
    searchPath: fields.strings("searchPath"),
    defaultRoute: optionalStrings(fields, "defaultRoute"),
    result: fields.object("result")?.raw,
  });
}

function readDevice(fields: FieldReader | undefined): AttachedDevice | undefined {
  if (fields === undefined) return undefined;
  checkKeys(fields, ["resourceName", "id", "source"]);
  return {
    resourceName: text(fields, "resourceName"),
    id: text(fields, "id"),
    source: text(fields, "source"),
  };
}

function readIgnored(fields: FieldReader): IgnoredRequest {
  checkKeys(fields, ["key", "asked"], ["got"]);
  const got = fields.has("got") ? text(fields, "got") : undefined;
  return omitUndefined({ key: text(fields, "key"), asked: text(fields, "asked"), got });
}

function readPairs(fields: FieldReader, key: string): readonly (readonly [string, string])[] {
  return fields.elements(key).flatMap((value): [string, string][] => {
    const [name, argument, ...others] = Array.isArray(value) ? value : [];
    if (typeof name === "string" && typeof argument === "string" && others.length === 0) {
      return [[name, argument]];
    }
    fields.mismatch(key, "a list of pairs of strings");
    return [];
  });
}

function optionalStrings(fields: FieldReader, key: string): readonly string[] | undefined {
  return fields.has(key) ? fields.strings(key) : undefined;
}

/** A string, which may be empty; that it is missing {@link checkKeys} has noted. */
function text(fields: FieldReader, key: string): string {
  return fields.string(key) ?? "";
}

/** Notes the required members that are missing, and those that are neither required nor optional. */
function checkKeys(
  fields: FieldReader,
  required: readonly string[],
  optional: readonly string[] = [],
): void {
  for (const key of required) {
    if (fields.value(key) === undefined) fields.problem(key, "is missing");
  }
  // A member that is null would pass for one that is absent.
  const present = optional.filter((key) => fields.value(key) !== undefined);
  fields.refuseOthers([...required, ...present]);
}
