import { CniError, CniErrorCode } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { AttachmentRecord, RecordKey } from "#engine/record/record.ts";
import type { TeardownPlan } from "#engine/record/teardown-plan.ts";
import { DocumentError } from "#lib/document-error.ts";
import { errorMessage } from "#lib/error-message.ts";
import { ProtocolError } from "#protocol/frame.ts";
import { decodePlan, decodeRecord, encodePlan } from "#protocol/plan.ts";
import { readRecord, recordSchemaVersion } from "./record-schema.ts";

/** Where a record or plan was read. */
interface RecordPlace {
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
    { schema: recordSchemaVersion, text },
  );
}

/** The plan of the default network's DEL: it names no sandbox, and all of it is to be executed. */
export function formatDefaultPlan(calls: readonly DelegateCall[]): Buffer {
  const head = { containerId: "", ifName: "", bootId: "", attempted: 1 };
  return encodePlan({ ...head, calls: calls.map((call) => ({ group: 0, ...call })) });
}

/**
 * The newest record in its file's bytes. One with an update that was cut short may be older than what was
 * done since: its boot is then not known, so that everything in it has to be detached.
 * @throws CniError 6 naming the file when there is none that is whole, or it has another schema, or
 *   belongs to another sandbox
 */
export function parseRecord(bytes: Buffer, place: RecordPlace): AttachmentRecord {
  return usable("attachment record", place, () => {
    const { schema, text, isOutdated } = decodeRecord(bytes);
    const record = readRecord(schema, JSON.parse(text));
    checkOwner(record, place.key);
    return isOutdated ? { ...record, bootId: "" } : record;
  });
}

/**
 * The newest teardown plan in the bytes of a record's file.
 * @throws CniError 6 naming the file when there is none that is whole, or it belongs to another sandbox
 */
export function parsePlan(bytes: Buffer, place: RecordPlace): TeardownPlan {
  return usable("teardown plan", place, () => {
    const { containerId, ifName, bootId, attempted, calls } = decodePlan(bytes);
    checkOwner({ containerId, ifName }, place.key);
    return { bootId, attempted, steps: calls.map(({ group, ...call }) => ({ group, call })) };
  });
}

function checkOwner({ containerId, ifName }: RecordKey, key: RecordKey): void {
  if (containerId === key.containerId && ifName === key.ifName) return;
  throw new ProtocolError(`it belongs to interface ${ifName} of container ${containerId}`);
}

/** Runs a step that finds out whether a file can be used. @throws CniError 6 naming it when it cannot */
function usable<T>(description: string, { path }: RecordPlace, step: () => T): T {
  try {
    return step();
  } catch (error) {
    const isContent = [ProtocolError, DocumentError, SyntaxError].some(
      (kind) => error instanceof kind,
    );
    if (!isContent) throw error;
    throw new CniError(
      CniErrorCode.DecodingFailure,
      `${description} ${path} is unusable: ${errorMessage(error)}`,
      { cause: error },
    );
  }
}
