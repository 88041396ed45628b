import { parseResult } from "#cni/result/parse.ts";
import { isDefaultOfMain } from "#cni/result/result.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { asIoFailure, netlinkTransport } from "#engine/call/sandbox.ts";
import type { Attached } from "#engine/plan/planned-attachment.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import type { RecordedAttachment, YieldedRoute } from "#engine/record/record.ts";
import { type IpFamily, ipFamily } from "#lib/ip.ts";
import { type KernelRoute, newDefaultRoute } from "#netlink/routes.ts";
import { defaultRouteFamilies } from "#npwg/selection/network-selection.ts";
import { readRoutes } from "./apply.ts";
import {
  applyDefaultRoutes,
  changeRoutesOf,
  lacking,
  routedAttachment,
  withChangedRoutes,
} from "./default-routes.ts";
import { type RoutePlan, withoutHops } from "./plan.ts";
import { defaultsOf, defaultsOfAttachment, indexesOf, type KernelRoutes } from "./route-state.ts";

/*
 * The default route of a running pod: its connections and the kubelet's probes use it, so a network
 * that is plugged does not take it, unless it had it before.
 */

/** The attachments of a running pod around a network that was plugged. */
interface PluggedNetwork {
  /** The routes before its first plugin ran. */
  readonly before: KernelRoutes;
  readonly earlier: readonly Attached[];
  readonly added: Attached;
  /** The attachment whose place it takes: what that had by its plugins, it may have, too. */
  readonly replaced: RecordedAttachment | undefined;
}

/** The routes of a sandbox. @throws CniError 5 */
export function routesOfSandbox(ctx: CallContext, netns: string): Promise<KernelRoutes> {
  return asIoFailure(() => readRoutes({ netns, transport: netlinkTransport(ctx) }));
}

/**
 * Decides on the default routes after a network was plugged: one whose element has `default-route`
 * gets it, another one loses what its plugins took from the pod.
 * @returns the earlier attachments and the new one, with their results as the kernel's routes are
 * @throws CniError when that is not possible; {@link restoreRoutes} then restores the routes
 */
export async function routePlugged(
  ctx: CallContext,
  netns: string,
  { before, earlier, added, replaced }: PluggedNetwork,
): Promise<{ readonly earlier: readonly Attached[]; readonly added: Attached }> {
  if (added.planned.selection?.defaultRoute !== undefined) {
    // What its plugins took, the others have to yield: they get it back.
    await addLost(ctx, netns, before);
    const all = await applyDefaultRoutes(ctx, netns, [...earlier, added]);
    return { earlier: all.slice(0, -1), added: all.at(-1) as Attached };
  }
  const own = ownFamilies(replaced);
  // Nothing may hold them now: an attachment that did, and could not be detached, is gone.
  const awaited = earlier
    .flatMap((each) => each.yieldedRoutes ?? [])
    .map(({ dst }) => ipFamily(dst));
  const families = ([4, 6] as const).filter((family) => {
    const isUsed = awaited.includes(family) || defaultsOf(before, family).length > 0;
    return isUsed && !own.includes(family);
  });
  const changed = await changeRoutesOf(ctx, netns, (state) => {
    // A result may also name interfaces that the pod had before.
    const had = new Set(before.links.map(({ index }) => index));
    const losing = indexesOf([routedAttachment(added)], state).difference(had);
    return planKept(state, before.routes, { families, losing });
  });
  if (changed === undefined) return { earlier, added };
  const routed = withChangedRoutes(added, changed);
  const yieldedRoutes = routed.yieldedRoutes.filter(({ dst }) =>
    replaced?.yieldedRoutes?.some((each) => each.dst === dst),
  );
  return { earlier, added: { ...routed, yieldedRoutes } };
}

/** Adds the default routes that a failed attachment has cost. Only logs what fails. */
export async function restoreRoutes(
  ctx: CallContext,
  netns: string,
  before: KernelRoutes,
): Promise<void> {
  try {
    await addLost(ctx, netns, before);
  } catch (err) {
    if (err instanceof HostGoneError) throw err;
    ctx.logger.error({ err }, "cannot restore the default routes of a running pod");
  }
}

/** The default routes of some families as they are, without some interfaces and with others. */
function planKept(
  state: KernelRoutes,
  former: readonly KernelRoute[],
  { families, losing }: Pick<RoutePlan, "families"> & { readonly losing?: ReadonlySet<number> },
): RoutePlan {
  const edits = families.flatMap((family) => {
    const now = defaultsOf(state, family);
    const removed = withoutHops(now, losing ?? new Set());
    const lost = defaultsOf({ routes: former }, family).filter((route) => !hasHops(now, route));
    return [...removed, ...lost.map((route) => ({ op: "add", route, append: true }) as const)];
  });
  return { edits, families };
}

async function addLost(ctx: CallContext, netns: string, { routes }: KernelRoutes): Promise<void> {
  await changeRoutesOf(ctx, netns, (state) => planKept(state, routes, { families: [4, 6] }));
}

function hasHops(routes: readonly KernelRoute[], { metric, hops }: KernelRoute): boolean {
  const there = routes.filter((each) => each.metric === metric).flatMap((each) => each.hops);
  return hops.every(({ ifIndex, gateway }) =>
    there.some((each) => each.ifIndex === ifIndex && each.gateway === gateway),
  );
}

/**
 * The attachments with the default routes that they would get back if the plugging of another
 * network were interrupted: its plugins, or its element, may take them.
 */
export function routesAhead(before: KernelRoutes, attached: readonly Attached[]): Attached[] {
  return attached.map((each) => {
    const { yieldedRoutes = [] } = each;
    const present = defaultsOfAttachment(before, routedAttachment(each), [4, 6]);
    return { ...each, yieldedRoutes: [...yieldedRoutes, ...lacking(present, yieldedRoutes)] };
  });
}

/** The attachments of a running pod that are left when another one was unplugged. */
interface LeftNetworks {
  readonly attached: readonly Attached[];
  /** All of them: some that are not attached may still hold the default route. */
  readonly recorded: readonly Pick<RecordedAttachment, "ifName" | "defaultRoute">[];
}

/**
 * Gives the default routes that attachments yielded back to them, after another one was unplugged.
 * @returns the attachments that have got some, with their results as the kernel's routes are
 * @throws CniError 5
 */
export async function giveBackRoutes(
  ctx: CallContext,
  netns: string,
  { attached, recorded }: LeftNetworks,
): Promise<readonly Attached[]> {
  const all = attached.map((each) => {
    const others = recorded.filter(({ ifName }) => ifName !== each.planned.ifName);
    const taken = others.flatMap(({ defaultRoute }) => defaultRouteFamilies(defaultRoute));
    const { held = [], back = [] } = Object.groupBy(each.yieldedRoutes ?? [], ({ dst }) =>
      taken.includes(ipFamily(dst)) ? "held" : "back",
    );
    return { left: { ...each, yieldedRoutes: held }, back };
  });
  const yielding = all.filter(({ back }) => back.length > 0);
  if (yielding.length === 0) return [];
  const yielded = yielding.flatMap(({ back }) => back);
  const families = [...new Set(yielded.map(({ dst }) => ipFamily(dst)))];
  const changed = await changeRoutesOf(ctx, netns, (state) =>
    planKept(state, kernelRoutes(state, yielded), { families }),
  );
  if (changed === undefined) return [];
  return yielding.map(({ left }) => withChangedRoutes(left, changed));
}

/** The routes that attachments yielded, as far as their interfaces are there. */
function kernelRoutes({ links }: KernelRoutes, yielded: readonly YieldedRoute[]): KernelRoute[] {
  return yielded.flatMap(({ dst, gw: gateway, dev, ...own }) => {
    const link = links.find(({ name }) => name === dev);
    if (link === undefined) return [];
    return newDefaultRoute({ family: ipFamily(dst), ifIndex: link.index, gateway, ...own });
  });
}

/**
 * Attachments that yield the default routes which the kernel does not use, because others are before
 * them: what takes their place is not to have the default route.
 * @throws CniError 5
 */
export async function yieldingUnused(
  ctx: CallContext,
  netns: string,
  attachments: readonly RecordedAttachment[],
): Promise<readonly RecordedAttachment[]> {
  if (attachments.every((each) => ownFamilies(each).length === 0)) return attachments;
  const state = await routesOfSandbox(ctx, netns);
  return attachments.map((each) => {
    const own = indexesOf([each], state);
    const families = ownFamilies(each).filter((family) => {
      const defaults = defaultsOf(state, family).toSorted((a, b) => a.metric - b.metric);
      return defaults.findIndex(({ hops }) => hops.some(({ ifIndex }) => own.has(ifIndex))) > 0;
    });
    const unused = defaultsOfAttachment(state, each, families);
    return { ...each, yieldedRoutes: [...(each.yieldedRoutes ?? []), ...unused] };
  });
}

/** The families whose default route an attachment had by its plugins, not by `default-route`. */
function ownFamilies(replaced: RecordedAttachment | undefined): IpFamily[] {
  if (replaced?.result === undefined) return [];
  const { routes } = parseResult(replaced.result, { fallbackVersion: "" });
  const families = routes.filter(isDefaultOfMain).map(({ dst }) => ipFamily(dst));
  const yielded = (replaced.yieldedRoutes ?? []).map(({ dst }) => ipFamily(dst));
  const others = [...defaultRouteFamilies(replaced.defaultRoute), ...yielded];
  return [...new Set(families)].filter((family) => !others.includes(family));
}
