import { CniError } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import {
  type AttachmentRecord,
  addHasEnded,
  type RecordedAttachment,
} from "#engine/record/record.ts";
import type { StoredRecord, TeardownPlan } from "#engine/record/teardown-plan.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { parseExactly } from "#lib/json.ts";
import { DocumentError } from "#lib/parsing/document-error.ts";
import { ProtocolError } from "#protocol/frame.ts";
import { decodePlan, encodePlan, type PlanMessage, PlanVersionError } from "#protocol/plan.ts";
import { readRecord, recordSchemaVersion } from "./record-schema.ts";

interface RecordPlace {
  readonly path: string;
  readonly key: RecordKey;
}

/** Encodes a record and its plan as an update of their file (shim/protocol.h). */
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

/** The plan of the default network's DEL: without a sandbox, and to be executed completely. */
export function formatDefaultPlan(calls: readonly DelegateCall[]): Buffer {
  const head = { containerId: "", ifName: "", bootId: "", attempted: 1 };
  return encodePlan({ ...head, calls: calls.map((call) => ({ group: 0, ...call })) });
}

/**
 * The newest record of a file. After an incomplete update, all that was planned may have run, or
 * the ADD has ended since. Its boot stays known: once that is over, nothing else may say that the
 * sandbox is.
 * @throws CniError 6 naming a file without a whole record, or of another schema or sandbox; 5 for a
 * plan of another version
 */
export function parseRecord(bytes: Buffer, place: RecordPlace): StoredRecord {
  return usable(place, () => {
    const { plan, record: message, isOutdated } = decodePlan(bytes);
    if (message === undefined) throw new ProtocolError("it has a teardown plan, but no record");
    const record = readRecord(message.schema, parseExactly(message.text));
    checkOwner(record, place.key);
    const newest = plan.bootId === "" ? allAttempted(record) : record;
    const isDoubtful = isOutdated && !addHasEnded(newest);
    return {
      record: isDoubtful ? { ...newest, hasLostUpdate: true } : newest,
      get plan() {
        return usable(place, () => teardownPlan(plan, place.key));
      },
    };
  });
}

function allAttempted(record: AttachmentRecord): AttachmentRecord {
  const attachments = record.attachments.map(
    (each): RecordedAttachment =>
      each.state === "planned" ? { ...each, state: "attempted" } : each,
  );
  return { ...record, attachments };
}

/** The newest plan of a file whose record is damaged; undefined if it is unusable, too. */
export function planIn(bytes: Buffer, key: RecordKey): TeardownPlan | undefined {
  try {
    return teardownPlan(decodePlan(bytes).plan, key);
  } catch {
    return undefined;
  }
}

function teardownPlan(message: PlanMessage, key: RecordKey): TeardownPlan {
  const { bootId, attempted, calls } = message;
  checkOwner(message, key);
  return { bootId, attempted, steps: calls.map(({ group, ...call }) => ({ group, call })) };
}

function checkOwner({ containerId, ifName }: RecordKey, key: RecordKey): void {
  if (containerId === key.containerId && ifName === key.ifName) return;
  throw new ProtocolError(`it belongs to interface ${ifName} of container ${containerId}`);
}

/**
 * A plan of another version is not damaged: it is kept for the release that wrote it.
 * @throws CniError 6 naming the file when the step finds invalid content, 5 for such a plan
 */
function usable<T>({ path }: RecordPlace, step: () => T): T {
  try {
    return step();
  } catch (error) {
    if (error instanceof PlanVersionError) {
      throw new CniError(
        "IoFailure",
        `cannot read the attachment record ${path}, which is kept: ${error.message}; install the release of Plexus that wrote it`,
        { cause: error },
      );
    }
    const isContent = [ProtocolError, DocumentError, SyntaxError].some(
      (kind) => error instanceof kind,
    );
    if (!isContent) throw error;
    throw new CniError(
      "DecodingFailure",
      `attachment record ${path} is unusable: ${errorMessage(error)}`,
      { cause: error },
    );
  }
}
