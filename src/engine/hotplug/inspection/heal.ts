import { parseResult } from "#cni/result/parse.ts";
import { missingInterfaces } from "#engine/add/kernel-interfaces.ts";
import { mayHotPlug } from "#engine/hotplug/desired-networks.ts";
import { type LockedSandbox, markDetaching } from "#engine/hotplug/running-sandboxes.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import type { Condition } from "#lib/condition.ts";

/** What was found in a running pod. */
export interface Inspection {
  /** One for each network that lacks an interface. */
  readonly lost: readonly Condition[];
  /** Whether the next attempt of hot-plug attaches some of them again. */
  readonly willHeal: boolean;
}

/**
 * Looks for attachments whose interfaces have disappeared from a running sandbox ([H-39]). With
 * `inspect: [heal]`, requested ones are recorded as about to be removed: the next
 * comparison with the annotation, which hot-plug makes, removes them and attaches them again.
 * @throws CniError 5 when the record cannot be written, 6 or 7 when it cannot be read
 */
export async function findLostInterfaces(
  { ctx, links, pod }: Pick<LockedSandbox, "ctx" | "links" | "pod">,
  stored: StoredRecord,
): Promise<Inspection> {
  const lacking = stored.record.attachments.filter((each) => lostOf(each, links).length > 0);
  const isHotPluggable = mayHotPlug(ctx.config, pod.namespace);
  // A running pod keeps the network that has its default route.
  const renewable = lacking.filter(
    ({ selection, defaultRoute }) => isHotPluggable && selection && defaultRoute === undefined,
  );
  const healed = ctx.config.inspect.includes("heal") ? renewable : [];
  if (healed.length > 0) await markDetaching(ctx, stored, healed);
  const lost = lacking.map((each) => {
    const refresh = `run kubectl plexus refresh ${pod.namespace}/${pod.name} ${each.ifName}, or `;
    const next = healed.includes(each)
      ? "it is attached again"
      : `${renewable.includes(each) ? refresh : ""}delete the pod, so that it starts anew with all its networks`;
    const names = lostOf(each, links).join(", ");
    const what = `interface ${names} of network ${each.displayName} has disappeared from the pod`;
    return { reason: "InterfaceLost" as const, message: `${what}: ${next}` };
  });
  return { lost, willHeal: healed.length > 0 };
}

/** The interfaces that an attachment should have. Those of user-space drivers are not in the kernel. */
function lostOf(attachment: RecordedAttachment, links: ReadonlySet<string>): string[] {
  const { result, state, userSpaceInterfaces = [] } = attachment;
  if (state !== "attached") return [];
  const missing = missingInterfaces(parseResult(result, { fallbackVersion: "" }), links);
  return missing.filter((name) => !userSpaceInterfaces.includes(name));
}
