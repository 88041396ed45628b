import { createHash } from "node:crypto";
import { join } from "node:path";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { AttachmentRecord, RecordKey } from "#engine/record/record.ts";
import type { TeardownPlan } from "#engine/record/teardown-plan.ts";
import { damagedFileName, oldFileNames } from "#lib/files/state-files.ts";
import { ProtocolError } from "#protocol/frame.ts";
import { parsePlan, type RecordPlace, usable, validRecord } from "./record-file.ts";
import { isPresent, readIfPresent, removeIfPresent, renameIfPresent } from "./state-file.ts";

/*
 * Earlier releases kept record and plan in a file each, with an update beside it until it was durable.
 * What they wrote is read and detached, and never written.
 */

/**
 * The record of a sandbox interface that an earlier release attached.
 * @throws CniError 5 when it cannot be read, 6 when it is damaged
 */
export function loadOldRecord(dir: string, key: RecordKey): AttachmentRecord | undefined {
  const { record, latestRecord } = pathsOf(dir, key);
  if (!isPresent(record)) return undefined;
  return newest([latestRecord, record], "attachment record", (bytes, path) =>
    parseOldRecord(bytes.toString(), { path, key }),
  );
}

/**
 * The plan of a sandbox interface that an earlier release attached.
 * @throws CniError 5 when it cannot be read, 6 when it is damaged
 */
export function loadOldPlan(dir: string, key: RecordKey): TeardownPlan | undefined {
  const { plan, latestPlan } = pathsOf(dir, key);
  return newest([latestPlan, plan], "teardown plan", (bytes, path) =>
    parsePlan(bytes, { path, key }),
  );
}

/** Whether an earlier release has left anything of a sandbox interface: updates are only beside what they update. */
export function hasOldFiles(dir: string, key: RecordKey): boolean {
  const { record, plan } = pathsOf(dir, key);
  return isPresent(plan) || isPresent(record);
}

/** Why a sandbox interface with a plan of an earlier release, but no record, is damaged. */
export function oldRecordMissing(dir: string, key: RecordKey): string {
  return `teardown plan ${pathsOf(dir, key).plan} has no attachment record beside it`;
}

/** Removes the files of an earlier release, which need not exist; the plan last, for whoever finds the rest. */
export function removeOldFiles(dir: string, key: RecordKey): void {
  if (!hasOldFiles(dir, key)) return;
  const { record, latestRecord, plan, latestPlan } = pathsOf(dir, key);
  for (const path of [latestRecord, record, latestPlan, plan]) removeIfPresent(path);
}

/** Puts the files of an earlier release aside, which need not exist. */
export function putOldFilesAside(dir: string, key: RecordKey): void {
  for (const path of Object.values(pathsOf(dir, key))) renameIfPresent(path, damagedFileName(path));
}

/**
 * The newest usable content. Should the update be damaged, the file itself counts, which is older than what
 * was done since: its boot is then not known, so that everything in it has to be detached.
 */
function newest<T extends { readonly bootId: string }>(
  [latest, durable]: readonly [string, string],
  description: string,
  parse: (bytes: Buffer, path: string) => T,
): T | undefined {
  const read = (path: string): T | undefined => {
    const bytes = readIfPresent(path, description);
    return bytes === undefined ? undefined : parse(bytes, path);
  };
  try {
    const updated = read(latest);
    if (updated !== undefined) return updated;
  } catch (error) {
    const isDamaged = error instanceof CniError && error.code === CniErrorCode.DecodingFailure;
    const older = isDamaged ? read(durable) : undefined;
    if (older === undefined) throw error;
    return { ...older, bootId: "" };
  }
  return read(durable);
}

const headPattern = /^\{"schema":(\d+),"sha256":"([0-9a-f]{64})","record":/;

/** A record's text: JSON, with a checksum of the bytes of the member `record`. */
function parseOldRecord(text: string, place: RecordPlace): AttachmentRecord {
  const [schema, body] = usable("attachment record", place, () => {
    const [head = "", version = "", checksum] = headPattern.exec(text) ?? [];
    if (head === "" || !text.endsWith("}\n")) {
      throw new ProtocolError("it is not an attachment record, or it is cut short");
    }
    const record = text.slice(head.length, -2);
    if (createHash("sha256").update(record).digest("hex") !== checksum) {
      throw new ProtocolError("its checksum does not match");
    }
    return [version, record] as const;
  });
  return validRecord(schema, body, place);
}

function pathsOf(dir: string, key: RecordKey): ReturnType<typeof oldFileNames> {
  const { record, latestRecord, plan, latestPlan } = oldFileNames(key);
  return {
    record: join(dir, record),
    latestRecord: join(dir, latestRecord),
    plan: join(dir, plan),
    latestPlan: join(dir, latestPlan),
  };
}
