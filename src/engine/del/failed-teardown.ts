import type { CallContext, EngineDeps } from "#engine/call/deps.ts";
import type { AttachmentRecord, BootTime, FailedTeardown } from "#engine/record/record.ts";

type Failing = Pick<AttachmentRecord, "teardown">;

/** The first failure of a teardown in this boot: an earlier one, else now. */
function failingSince(
  { clock, bootId }: Pick<EngineDeps, "clock" | "bootId">,
  { teardown }: Failing,
): BootTime {
  const now = { bootId: bootId(), clockMs: Math.floor(clock()) };
  const since = teardown?.since;
  return since !== undefined && now.bootId !== "" && since.bootId === now.bootId ? since : now;
}

/** How long the DELs of a record have failed, in milliseconds. */
export function failingFor(deps: Pick<EngineDeps, "clock" | "bootId">, record: Failing): number {
  const { clockMs } = failingSince(deps, record);
  return deps.clock() - clockMs;
}

/** What a record says after one more failure. */
export function failedTeardown(
  deps: Pick<EngineDeps, "clock" | "bootId" | "now">,
  record: Failing,
  lastError: string,
): FailedTeardown {
  const failedAt = deps.now();
  const since = failingSince(deps, record);
  const { firstFailedAt = failedAt, attempts = 0 } = record.teardown ?? {};
  return { firstFailedAt, since, failedAt, attempts: attempts + 1, lastError };
}

/** Emits the event of a pod whose sandbox could not be detached. */
export function emitLeftover(
  { deps }: CallContext,
  { pod }: Pick<AttachmentRecord, "pod">,
  reason: string,
): void {
  if (pod === undefined) return;
  const message = `could not be detached and stays recorded: ${reason}`;
  deps.events.record(pod, { type: "Warning", reason: "LeftoverAttachment", message });
}
