import { formatResult } from "#cni/result/format.ts";
import { sandboxInterfaces } from "#cni/result/sandbox-interfaces.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { asIoFailure, netlinkTransport } from "#engine/call/sandbox.ts";
import type { Attached } from "#engine/plan/planned-attachment.ts";
import { applyDefaultRoute } from "./apply.ts";
import { withDefaultRoutes } from "./result-edit.ts";
import type { RoutedAttachment } from "./route-state.ts";

/**
 * Gives the default route to the attachment that the pod selected, if any. Returns the results with
 * the kernel's routes, for the runtime, the status and CHECK (multi-network specification v1.1
 * §4.1.2.1.9).
 * @throws CniError when the request cannot be met; the routes are then as before
 */
export async function applyDefaultRoutes(
  ctx: CallContext,
  netns: string,
  attached: readonly Attached[],
): Promise<readonly Attached[]> {
  const attachments = attached.map(routedAttachment);
  const transport = netlinkTransport(ctx);
  const after = await asIoFailure(() => applyDefaultRoute({ netns, attachments, transport }));
  if (after === undefined) return attached;
  return attached.map((each) => {
    const result = withDefaultRoutes(each.result, routedAttachment(each), after);
    return { ...each, result, raw: formatResult(result, each.planned.list.cniVersion) };
  });
}

function routedAttachment({ planned, result }: Attached): RoutedAttachment {
  const sandboxed = sandboxInterfaces(result).map(({ link }) => link);
  return {
    ifName: planned.ifName,
    otherIfNames: sandboxed.map(({ name }) => name),
    requested: planned.selection?.defaultRoute,
  };
}
