import { formatResult } from "#cni/result/format.ts";
import {
  isDefaultOfMain,
  type Result,
  type ResultRoute,
  sandboxInterfaces,
} from "#cni/result/result.ts";
import type { Attached } from "#engine/add/add-record.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { asIoFailure, netlinkTransport } from "#engine/call/sandbox.ts";
import { ipFamily } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { kernelMetric } from "#netlink/routes.ts";
import { defaultGateways } from "#npwg/network-status.ts";
import { changeRoutes, type RoutesAfter } from "./apply.ts";
import { planDefaultRoute, planWithoutDefaults, type RoutePlan } from "./plan.ts";
import { defaultsOfAttachment, type RoutedAttachment, type RouteState } from "./route-state.ts";

/**
 * Gives the default route to the attachment that the pod selected, if any. Returns the results with
 * the kernel's routes, for the runtime, the status and CHECK (multi-network specification v1.1
 * §4.1.2.1.9). Without such a request the kernel is not queried.
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
  if (changed !== undefined) return attached.map((each) => withChangedRoutes(each, changed));
  ctx.logger.warn({}, "the pod's default-route has no effect: its network has no gateway");
  return attached;
}

/**
 * Removes the default routes that the plugins of a network have set in a running pod, where another
 * interface has some: the pod's connections and the kubelet's probes use those.
 * @param others the interfaces of the pod's other attachments
 * @returns the attachment with the kernel's routes in its result
 * @throws CniError 5 when the kernel refuses
 */
export async function withoutDefaultRoutes(
  ctx: CallContext,
  netns: string,
  { added, others }: { readonly added: Attached; readonly others: readonly string[] },
): Promise<Attached> {
  const attachment = routedAttachment(added);
  const changed = await changeRoutesOf(ctx, netns, (state) =>
    planWithoutDefaults(state, attachment, others),
  );
  return changed === undefined ? added : withChangedRoutes(added, changed);
}

function changeRoutesOf(
  ctx: CallContext,
  netns: string,
  plan: (state: RouteState) => RoutePlan,
): Promise<RoutesAfter | undefined> {
  return asIoFailure(() => changeRoutes({ netns, transport: netlinkTransport(ctx) }, plan));
}

/** The attachment with the kernel's default routes in its result. */
function withChangedRoutes(attached: Attached, after: RoutesAfter): Attached {
  const result = withDefaultRoutes(attached.result, routedAttachment(attached), after);
  return { ...attached, result, raw: formatResult(result, attached.planned.list.cniVersion) };
}

/** What matters of an attachment for the default route. */
function routedAttachment({ planned, result }: Attached): RoutedAttachment {
  return {
    ifName: planned.ifName,
    otherIfNames: sandboxInterfaces(result).map(({ link }) => link.name),
    requested: planned.selection?.defaultRoute,
    gateways: gatewaysOf(result),
  };
}

/** The gateways of a result's default routes; without such routes, those of its addresses. */
function gatewaysOf(result: Result): string[] {
  const routed = defaultGateways(result);
  return routed.length > 0 ? routed : result.ips.flatMap(({ gateway }) => gateway ?? []);
}

/**
 * Replaces a result's default routes of the changed families with the attachment's routes in the
 * kernel. Keeps gateways of addresses: they describe the network, not what the pod uses. @internal
 */
export function withDefaultRoutes(
  result: Result,
  attachment: RoutedAttachment,
  after: RoutesAfter,
): Result {
  const isDecided = (route: ResultRoute): boolean =>
    isDefaultOfMain(route) && after.families.includes(ipFamily(route.dst));
  const reported = result.routes.filter(isDecided);
  const kept = result.routes.filter((route) => !isDecided(route));
  const defaults = defaultsOfAttachment(after, attachment, after.families).map((route) => {
    const { dst, gw, metric } = route;
    const priority = metric === kernelMetric[ipFamily(dst)] ? undefined : metric;
    const now = omitUndefined({ dst, gw, priority });
    return reported.find((entry) => isSame(entry, now, result)) ?? now;
  });
  return { ...result, routes: [...kept, ...defaults] };
}

/** Whether the plugins reported this route; without a gateway, the address of its family has it. */
function isSame(entry: ResultRoute, route: ResultRoute, { ips }: Result): boolean {
  const family = ipFamily(route.dst);
  if (ipFamily(entry.dst) !== family || metricOf(entry) !== metricOf(route)) return false;
  if (entry.gw !== undefined) return entry.gw === route.gw;
  return ips.some(({ address, gateway }) => ipFamily(address) === family && gateway === route.gw);
}

function metricOf({ dst, priority }: ResultRoute): number {
  return priority ?? kernelMetric[ipFamily(dst)];
}
