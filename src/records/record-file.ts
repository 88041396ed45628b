import * as z from "zod";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { AttachmentRecord, RecordKey } from "#engine/record.ts";
import type { TeardownPlan } from "#engine/teardown-plan.ts";
import type { Json, JsonObject } from "#lib/json.ts";
import { ProtocolError } from "#protocol/frame.ts";
import { decodePlan, decodeRecord, encodePlan } from "#protocol/plan.ts";

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

const schemas: Readonly<Record<string, z.ZodType<AttachmentRecord>>> = {
  1: upgradedRecordSchema,
  [recordSchemaVersion]: recordSchema,
};

/** Where a record or plan was read. */
export interface RecordPlace {
  readonly path: string;
  /** The sandbox that it must belong to. */
  readonly key: RecordKey;
}

/** A record and its plan as bytes of their file, in which the newest counts (shim/protocol.h). */
export function formatRecord(record: AttachmentRecord, plan: TeardownPlan): Buffer {
  const { containerId, ifName } = record;
  const { bootId, attempted, steps } = plan;
  const calls = steps.map(({ group, call }) => ({ group, ...call }));
  const text = JSON.stringify(record);
  return encodePlan(
    { containerId, ifName, bootId, attempted, calls },
    { schema: String(recordSchemaVersion), text },
  );
}

/**
 * The newest record in its file's bytes. One with an update that was cut short may be older than what was
 * done since: its boot is then not known, so that everything in it has to be detached.
 * @throws CniError 6 naming the file when there is none that is whole, or it has another schema, or
 *   belongs to another sandbox
 */
export function parseRecord(bytes: Buffer, place: RecordPlace): AttachmentRecord {
  const { schema, text, isOutdated } = usable("attachment record", place, () =>
    decodeRecord(bytes),
  );
  const record = validRecord(schema, text, place);
  return isOutdated ? { ...record, bootId: "" } : record;
}

/**
 * The newest teardown plan in the bytes of a record's file, or in a plan's file of an earlier release.
 * @throws CniError 6 naming the file when there is none that is whole, or it belongs to another sandbox
 */
export function parsePlan(bytes: Buffer, place: RecordPlace): TeardownPlan {
  return usable("teardown plan", place, () => {
    const { containerId, ifName, bootId, attempted, calls } = decodePlan(bytes);
    checkOwner({ containerId, ifName }, place.key);
    return { bootId, attempted, steps: calls.map(({ group, ...call }) => ({ group, call })) };
  });
}

/** A record in the text that its checksum has proved to be whole. @throws CniError 6 naming the file */
export function validRecord(schema: string, text: string, place: RecordPlace): AttachmentRecord {
  return usable("attachment record", place, () => {
    const known = schemas[schema];
    if (known === undefined) {
      const versions = Object.keys(schemas).join(" and ");
      throw new ProtocolError(`it has schema ${schema}, this version reads ${versions}`);
    }
    const parsed = known.safeParse(JSON.parse(text));
    if (!parsed.success)
      throw new ProtocolError(z.prettifyError(parsed.error).replaceAll("\n", " "));
    checkOwner(parsed.data, place.key);
    return parsed.data;
  });
}

function checkOwner({ containerId, ifName }: RecordKey, key: RecordKey): void {
  if (containerId === key.containerId && ifName === key.ifName) return;
  throw new ProtocolError(`it belongs to interface ${ifName} of container ${containerId}`);
}

/** Runs a step that finds out whether a file can be used. @throws CniError 6 naming it when it cannot */
export function usable<T>(description: string, { path }: RecordPlace, step: () => T): T {
  try {
    return step();
  } catch (error) {
    if (!(error instanceof ProtocolError || error instanceof SyntaxError)) throw error;
    throw new CniError(
      CniErrorCode.DecodingFailure,
      `${description} ${path} is unusable: ${error.message}`,
      { cause: error },
    );
  }
}
