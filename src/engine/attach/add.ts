import { CniError, CniErrorCode } from "#cni/error.ts";
import type { AddRequest } from "#cni/plugin/request.ts";
import { formatResult } from "#cni/result/format.ts";
import { addNetwork } from "#cni/runtime/chain.ts";
import type { RunDelegate } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/deps.ts";
import { detachAll } from "#engine/detach/detach.ts";
import { planAttachments } from "#engine/plan/plan-attachments.ts";
import { podIdentity, podOfCall } from "#engine/plan/pod.ts";
import { checkReadinessFile } from "#engine/plan/readiness.ts";
import {
  type Attached,
  namingNetwork,
  type PlannedAttachment,
  runtimeConf,
  toRecorded,
  withResults,
} from "#engine/planned-attachment.ts";
import { HostGoneError, type Pod } from "#engine/ports.ts";
import type { AttachmentRecord } from "#engine/record.ts";
import { teardownPlan } from "#engine/teardown-plan.ts";
import type { JsonObject } from "#lib/json.ts";
import { applyDefaultRoutes } from "./default-routes.ts";
import { publishStatus, tellAdded } from "./publish-status.ts";

/**
 * ADD: attaches the default network, then each requested one (architecture: life of one ADD).
 * The record is durable before the first delegate runs; after the first failure everything
 * attempted is detached again.
 * @returns the default network's result in the version of the runtime's conf
 * @throws CniError with the failing delegate's code, naming its network
 */
export async function add(ctx: CallContext, request: AddRequest): Promise<JsonObject> {
  const { records } = ctx.deps;
  if (request.prevResult !== undefined) throw notFirst();
  await checkReadinessFile(ctx);
  if ((await records.load(request)) !== undefined) throw alreadyAttached(request);
  const pod = await ctx.trace.phase("pod", () => podOfCall(ctx, podIdentity(request.cniArgs)));
  const plan = await ctx.trace
    .phase("resolve", () => planAttachments(ctx, request, pod))
    .catch((error: unknown) => {
      tellFailure(ctx, pod, error);
      throw error;
    });
  const record = newRecord(ctx, { request, pod, attachments: plan.attachments });
  await ctx.trace.phase("record", () => save(ctx, record));
  const attached: Attached[] = [];
  let attempted = 0;
  try {
    await attachAll(ctx, {
      record,
      planned: plan.attachments,
      attached,
      onAttempt: (n) => (attempted = n),
    });
    const final = await ctx.trace.phase("route", () =>
      applyDefaultRoutes(ctx, record.netns, attached),
    );
    const result = answer(final, request.conf.cniVersion);
    await finish(ctx, { record, pod, attached: final, annotationError: plan.annotationError });
    return result;
  } catch (error) {
    tellFailure(ctx, pod, error);
    if (error instanceof HostGoneError) throw error;
    await undo(ctx, withResults(record, attached), attempted);
    throw error;
  }
}

/**
 * Fills `attached` one by one and tells how many networks had a plugin executed: a network whose
 * first plugin is not there has nothing to be undone, and its DEL would fail for the same reason.
 */
async function attachAll(
  ctx: CallContext,
  work: {
    record: AttachmentRecord;
    planned: readonly PlannedAttachment[];
    attached: Attached[];
    onAttempt: (count: number) => void;
  },
): Promise<void> {
  const { record, planned, attached, onAttempt } = work;
  for (const attachment of planned) {
    const rt = runtimeConf(record, attachment, ctx.config.delegateTimeoutMs);
    const run = ctx.run(attachment.displayName);
    const runAndTell: RunDelegate = async (call) => {
      const outcome = await run(call);
      const wasExecuted = outcome.outcome !== "missing" && outcome.outcome !== "refused";
      if (wasExecuted) onAttempt(attached.length + 1);
      return outcome;
    };
    try {
      const { raw, result } = await addNetwork(attachment.list, rt, runAndTell);
      attached.push({ planned: attachment, raw, result });
    } catch (error) {
      throw namingNetwork(error, attachment);
    }
  }
}

/**
 * The results become durable while the status is published: both are needed, neither waits for the
 * other. When one fails, the other has come to its end as well before anything is undone.
 */
async function finish(
  ctx: CallContext,
  done: {
    record: AttachmentRecord;
    pod: Pod | undefined;
    attached: readonly Attached[];
    annotationError: string | undefined;
  },
): Promise<void> {
  const record = withResults(done.record, done.attached);
  const saved = ctx.trace.phase("record", () => save(ctx, record));
  const published = ctx.trace.phase("status", () => publishStatus(ctx, done));
  const failed = (await Promise.allSettled([saved, published])).find(
    (r) => r.status === "rejected",
  );
  if (failed !== undefined) {
    if (done.pod !== undefined) await ctx.deps.publisher.withdraw(done.pod);
    throw failed.reason;
  }
  tellAdded(ctx, done.pod, done.attached);
}

function answer(attached: readonly Attached[], version: string): JsonObject {
  const main = attached.find((a) => a.planned.isDefault) ?? attached[0];
  if (main === undefined) {
    throw new CniError(CniErrorCode.Internal, "no network was attached");
  }
  return formatResult(main.result, version);
}

function newRecord(
  ctx: CallContext,
  of: { request: AddRequest; pod: Pod | undefined; attachments: readonly PlannedAttachment[] },
): AttachmentRecord {
  const { request, pod } = of;
  return {
    containerId: request.containerId,
    ifName: request.ifName,
    netns: request.netns,
    cniVersion: request.conf.cniVersion,
    ...(pod === undefined
      ? {}
      : { pod: { namespace: pod.namespace, name: pod.name, uid: pod.uid } }),
    createdAt: ctx.deps.now(),
    attachments: of.attachments.map(toRecorded),
  };
}

function save(ctx: CallContext, record: AttachmentRecord): Promise<void> {
  return ctx.deps.records.save(record, teardownPlan(record, ctx.config.delegateTimeoutMs));
}

/**
 * Detaches the attempted attachments; the record goes only when nothing is left of them. What
 * fails here is logged: the runtime is told of the first error.
 */
async function undo(ctx: CallContext, planned: AttachmentRecord, attempted: number): Promise<void> {
  const record = { ...planned, attachments: planned.attachments.slice(0, attempted) };
  const failures = await detachAll(ctx, record, record.attachments);
  for (const { attachment, error } of failures) {
    const fields = { err: error, network: attachment.displayName };
    ctx.logger.error(fields, "the attachment could not be undone and stays recorded");
  }
  try {
    if (failures.length === 0) await ctx.deps.records.remove(record);
    else await save(ctx, record);
  } catch (error) {
    ctx.logger.error({ err: error }, "the attachment record could not be brought up to date");
  }
}

function tellFailure(ctx: CallContext, pod: Pod | undefined, error: unknown): void {
  if (pod === undefined || error instanceof HostGoneError) return;
  const message = error instanceof Error ? error.message : String(error);
  ctx.deps.events.record(pod, {
    type: "Warning",
    reason: "AttachFailed",
    message: message.slice(0, 300),
  });
}

/** A result that we would have to pass on: but the pod's first interface is ours to make (CNI 1.1.0 §4 "ADD"). */
function notFirst(): CniError {
  return new CniError(
    CniErrorCode.InvalidNetworkConfig,
    "plexus must be the first plugin of its list: the runtime passed the result of another one (prevResult); " +
      "make that plugin part of the cluster default network instead",
  );
}

function alreadyAttached(request: AddRequest): CniError {
  return new CniError(
    CniErrorCode.AlreadyAttached,
    `interface ${request.ifName} of container ${request.containerId} is attached already: ` +
      "the runtime must DEL before it ADDs again",
  );
}
