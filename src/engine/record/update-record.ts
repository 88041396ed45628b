import type { CallContext } from "#engine/call/deps.ts";
import type { AttachmentRecord } from "./record.ts";
import { teardownPlan } from "./teardown-plan.ts";

/** Replaces a created record and its teardown plan. @throws CniError 5 when that fails */
export async function updateRecord(ctx: CallContext, record: AttachmentRecord): Promise<void> {
  await ctx.deps.records.update(record, teardownPlan(record, ctx.config.delegateTimeoutMs));
}
