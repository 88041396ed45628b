import { CniError, CniErrorCode } from "#cni/error.ts";
import type { RecordKey } from "#engine/record.ts";
import type { TeardownPlan } from "#engine/teardown-plan.ts";
import { ProtocolError } from "#protocol/frame.ts";
import { decodePlan, encodePlan } from "#protocol/plan.ts";

/** The bytes of a teardown plan's file, which the shim replays (shim/protocol.h). */
export function formatPlan(key: RecordKey, plan: TeardownPlan): Buffer {
  const { containerId, ifName } = key;
  const { bootId, attempted, steps } = plan;
  const calls = steps.map(({ group, call }) => ({ group, ...call }));
  return encodePlan({ containerId, ifName, bootId, attempted, calls });
}

/**
 * The plan in a file's bytes.
 * @throws CniError 6 naming the file when it is cut short, altered, or belongs to another sandbox
 */
export function parsePlan(
  bytes: Buffer,
  { path, key }: { readonly path: string; readonly key: RecordKey },
): TeardownPlan {
  try {
    const { containerId, ifName, bootId, attempted, calls } = decodePlan(bytes);
    if (containerId !== key.containerId || ifName !== key.ifName) {
      throw new ProtocolError(`it belongs to interface ${ifName} of container ${containerId}`);
    }
    const steps = calls.map(({ group, ...call }) => ({ group, call }));
    return { bootId, attempted, steps };
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new CniError(
      CniErrorCode.DecodingFailure,
      `teardown plan ${path} is unusable: ${error.message}`,
      { cause: error },
    );
  }
}
