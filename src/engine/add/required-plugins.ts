import { pluginTypes } from "#cni/conf/conf.ts";
import type { RunDelegate } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";

/**
 * The delegates of a network. The first one of an ADD is executed only if the plugins of all
 * networks can be: with a missing last plugin, a network would be attached halfway. So the lookup
 * needs no round trip.
 */
export function requiringAll(
  ctx: CallContext,
  attachments: readonly PlannedAttachment[],
  planned: PlannedAttachment,
): RunDelegate {
  const run = ctx.delegateRunner(planned.displayName);
  if (planned !== attachments[0]) return run;
  let types = pluginTypes(attachments);
  return (call) => {
    const requires = types.filter((type) => type !== call.type);
    types = [];
    return run({ ...call, requires });
  };
}
