import type { CniArgs } from "#cni/args.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { podIdentity } from "#engine/call/pod-identity.ts";
import { detachRecord } from "#engine/del/detach-record.ts";
import {
  type AttachmentRecord,
  begunTeardown,
  type RecordedAttachment,
  type RecordKey,
} from "#engine/record/record.ts";
import { teardownPlan } from "#engine/record/teardown-plan.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** A sandbox to detach that has no record. */
export interface ForeignSandbox extends RecordKey {
  /** CNI_NETNS for the delegates; "" when the namespace is gone. */
  readonly netns: string;
  /** CNI_PATH of the call. */
  readonly path: readonly string[];
  readonly cniArgs: CniArgs;
  /** The version of the network configuration that the runtime passed. */
  readonly cniVersion: string;
  /** What the runtime has kept of the ADD. */
  readonly prevResult?: JsonObject;
  /** Values of the runtime for capabilities. */
  readonly runtimeConfig?: JsonObject;
}

/**
 * Makes the record that the sandbox should have, and detaches it. What cannot be detached now stays
 * recorded, and is tried again as any other sandbox's.
 * @throws CniError when something could not be detached, 102 for several networks
 */
export async function recordAndDetach(
  ctx: CallContext,
  sandbox: ForeignSandbox,
  attachments: readonly RecordedAttachment[],
): Promise<void> {
  const record = newRecord(ctx, sandbox, attachments);
  await create(ctx, record);
  await detachRecord(ctx, record, { netns: sandbox.netns, path: sandbox.path });
}

/** On a full disk the sandbox is detached without a record: its files are still there for another try. */
async function create(ctx: CallContext, record: AttachmentRecord): Promise<void> {
  try {
    await ctx.deps.records.create(record, teardownPlan(record, ctx.config.delegateTimeoutMs));
  } catch (error) {
    ctx.logger.warn({ err: error }, "the sandbox is detached without a record of it");
  }
}

/** Its boot is not known: everything in it may have run. The shim has marked no record of its DEL, as there was none. */
function newRecord(
  ctx: CallContext,
  sandbox: ForeignSandbox,
  attachments: readonly RecordedAttachment[],
): AttachmentRecord {
  const { containerId, ifName, netns, cniVersion } = sandbox;
  const identity = podIdentity(sandbox.cniArgs);
  const uid = identity?.uid;
  const now = ctx.deps.now();
  return omitUndefined({
    containerId,
    ifName,
    netns,
    cniVersion,
    pod: identity === undefined || uid === undefined ? undefined : { ...identity, uid },
    createdAt: now,
    bootId: "",
    attachments,
    teardown: begunTeardown(now),
  });
}
