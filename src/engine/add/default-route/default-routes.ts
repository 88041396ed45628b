import { formatResult } from "#cni/result/format.ts";
import { sandboxInterfaces } from "#cni/result/sandbox-interfaces.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { asIoFailure, netlinkTransport } from "#engine/call/sandbox.ts";
import type { Attached } from "#engine/plan/planned-attachment.ts";
import { type ChangedRoutes, changeRoutes } from "./apply.ts";
import { planDefaultRoute, type RoutePlan } from "./plan.ts";
import { type RoutesAfter, withDefaultRoutes } from "./result-edit.ts";
import type { RoutedAttachment, RouteState } from "./route-state.ts";
import { yieldedRoutes } from "./yielded-routes.ts";

/**
 * Gives the default route to the attachment that the pod selected, if any. Returns the results with
 * the kernel's routes, for the runtime, the status and CHECK (multi-network specification v1.1
 * §4.1.2.1.9), and what the other attachments have lost. Without such a request the kernel is not
 * queried.
 * @throws CniError when the request cannot be met; the routes are then as before
 */
export async function applyDefaultRoutes(
  ctx: CallContext,
  netns: string,
  attached: readonly Attached[],
): Promise<readonly Attached[]> {
  const attachments = attached.map(routedAttachment);
  if (attachments.every(({ requested }) => requested === undefined)) return attached;
  const changed = await changeRoutesOf(ctx, netns, (state) => planDefaultRoute(state, attachments));
  if (changed === undefined) return attached;
  return attached.map((each) => {
    const lost = yieldedRoutes(changed, routedAttachment(each));
    return {
      ...withRoutesAfter(each, changed.after),
      yieldedRoutes: [...(each.yieldedRoutes ?? []), ...lost],
    };
  });
}

/** Changes the routes of a sandbox, as {@link changeRoutes}. */
export function changeRoutesOf(
  ctx: CallContext,
  netns: string,
  plan: (state: RouteState) => RoutePlan,
): Promise<ChangedRoutes | undefined> {
  return asIoFailure(() => changeRoutes({ netns, transport: netlinkTransport(ctx) }, plan));
}

/** The attachment with the kernel's default routes in its result. */
export function withRoutesAfter(attached: Attached, after: RoutesAfter): Attached {
  const result = withDefaultRoutes(attached.result, routedAttachment(attached), after);
  return { ...attached, result, raw: formatResult(result, attached.planned.list.cniVersion) };
}

/** What matters of an attachment for the default route. */
export function routedAttachment({ planned, result }: Attached): RoutedAttachment {
  const sandboxed = sandboxInterfaces(result).map(({ link }) => link);
  return {
    ifName: planned.ifName,
    otherIfNames: sandboxed.map(({ name }) => name),
    requested: planned.selection?.defaultRoute,
  };
}
