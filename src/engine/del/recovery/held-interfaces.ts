import type { CallContext } from "#engine/call/call-context.ts";
import { recordsAt } from "#engine/call/netns-path.ts";
import { loadStored } from "#engine/del/stored.ts";
import { type AttachmentRecord, isSame, mayRun } from "#engine/record/record.ts";
import { plannedNetwork } from "#engine/record/teardown-plan.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { UnrecordedSandbox } from "./unrecorded-sandbox.ts";

/** The interfaces of a container's other records: podman attaches a container to several lists. */
export interface ContainerInterfaces {
  readonly names: ReadonlySet<string>;
  /** Whether there is another record. */
  readonly isRecorded: boolean;
  /** Whether one is unusable with its plan: it may have any interface. */
  readonly inDoubt: boolean;
}

/** The interfaces that the container's other records have. @throws Error if they cannot be listed */
export async function containerInterfaces(
  { deps }: CallContext,
  sandbox: RecordKey,
): Promise<ContainerInterfaces> {
  const { containerId } = sandbox;
  const { records, damaged } = await deps.records.list({ containerId });
  const others = records.filter((each) => !isSame(each, sandbox));
  const unusable = damaged.filter((each) => !isSame(each, sandbox));
  const names = new Set(interfacesOf(others));
  let inDoubt = false;
  for (const key of unusable) {
    const plan = await loadStored(() => deps.records.loadPlan(key));
    if (plan.state !== "usable") inDoubt = true;
    else for (const { call } of plan.value.steps) names.add(plannedNetwork(call).ifName);
  }
  return { names, isRecorded: others.length + unusable.length > 0, inDoubt };
}

/** The interfaces in the sandbox's namespace that other containers have, by records that may run. */
export async function interfacesOfOthers(
  ctx: CallContext,
  { containerId, netns }: UnrecordedSandbox,
): Promise<Set<string>> {
  if (netns === "") return new Set();
  const { records } = await recordsAt(ctx, netns);
  const others = records.filter((each) => each.containerId !== containerId && mayRun(each));
  return new Set(interfacesOf(others));
}

function interfacesOf(records: readonly AttachmentRecord[]): string[] {
  return records.flatMap(({ attachments }) => attachments.map(({ ifName }) => ifName));
}
