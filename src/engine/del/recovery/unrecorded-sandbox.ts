import type { CniArgs } from "#cni/args.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { netnsForDel } from "#engine/del/chain/netns.ts";
import { detachRecord } from "#engine/del/detach-record.ts";
import { teardownPlan } from "#engine/del/planned-dels.ts";
import { podIdentity } from "#engine/ports/pod-identity.ts";
import {
  type AttachmentRecord,
  begunTeardown,
  type RecordedAttachment,
} from "#engine/record/record.ts";
import type { TimeBudget } from "#lib/concurrency/time-budget.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** A sandbox without a record. */
export interface UnrecordedSandbox extends RecordKey {
  /** CNI_NETNS for the delegates; "" when the namespace is gone. */
  readonly netns: string;
  readonly path: readonly string[];
  readonly cniArgs: CniArgs;
  /** Absent when the sandbox is not the call's. */
  readonly listName?: string;
  readonly cniVersion: string;
  /** The result of the ADD, as the runtime kept it. */
  readonly prevResult?: JsonObject;
  readonly runtimeConfig?: JsonObject;
  /** The time for its plugins. @default as for every DEL */
  readonly budget?: TimeBudget;
}

/**
 * Creates the missing record, and detaches it. What cannot be detached now stays recorded and is
 * retried. Plugins get no namespace in which another container has one of the interfaces.
 * @throws CniError when something could not be detached, 102 for several networks
 */
export async function recordAndDetach(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
  attachments: readonly RecordedAttachment[],
): Promise<void> {
  const furtherNames = attachments.map(({ ifName }) => ifName);
  const netns = await netnsForDel(ctx, { ...sandbox, furtherNames });
  const record = newRecord(ctx, { ...sandbox, netns }, attachments);
  const plan = teardownPlan(record, ctx.config.delegateTimeoutMs);
  try {
    await ctx.deps.records.create(record, plan);
  } catch (error) {
    // On a full disk. The sandbox's files are kept for a retry.
    ctx.logger.warn({ err: error }, "cannot create a record; detaching the sandbox without one");
  }
  await detachRecord(ctx, { record, plan }, { netns, path: sandbox.path });
}

/** Without a boot ID, so every attachment is detached. The teardown has begun, as by the shim. */
function newRecord(
  { deps }: CallContext,
  sandbox: UnrecordedSandbox,
  attachments: readonly RecordedAttachment[],
): AttachmentRecord {
  const { containerId, ifName, netns, listName, cniVersion, cniArgs } = sandbox;
  const identity = podIdentity(cniArgs);
  const uid = identity?.uid;
  const createdAt = deps.now();
  return omitUndefined({
    ...{ containerId, ifName, netns, listName, cniVersion, createdAt, attachments },
    pod: identity === undefined || uid === undefined ? undefined : { ...identity, uid },
    clockMs: Math.floor(deps.clock()),
    bootId: "",
    teardown: begunTeardown(createdAt),
  });
}
