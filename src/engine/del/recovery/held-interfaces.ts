import type { CallContext } from "#engine/call/call-context.ts";
import { plannedNetwork } from "#engine/del/planned-dels.ts";
import { isSame } from "#engine/record/record.ts";
import type { RecordKey } from "#lib/files/state-files.ts";

/** The interfaces of a container's other records: nerdctl attaches a container to several lists. */
export interface ContainerInterfaces {
  readonly names: ReadonlySet<string>;
  /** Whether one is unusable with its plan: it may have any interface. */
  readonly inDoubt: boolean;
}

/** The interfaces that the container's other records have. @throws Error if they cannot be listed */
export async function containerInterfaces(
  { deps }: CallContext,
  sandbox: RecordKey,
): Promise<ContainerInterfaces> {
  const { records, damaged } = await deps.records.list();
  const isOther = (each: RecordKey): boolean =>
    each.containerId === sandbox.containerId && !isSame(each, sandbox);
  const others = records.filter(isOther);
  const names = new Set(
    others.flatMap(({ attachments }) => attachments.map((each) => each.ifName)),
  );
  let inDoubt = false;
  for (const { plan } of damaged.filter(isOther)) {
    if (plan === undefined) inDoubt = true;
    else for (const { call } of plan.steps) names.add(plannedNetwork(call).ifName);
  }
  return { names, inDoubt };
}
