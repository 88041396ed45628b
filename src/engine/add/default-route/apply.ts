import { errorMessage } from "#lib/error-message.ts";
import { execute, type NetlinkTransport, type Request } from "#netlink/codec.ts";
import { type Link, listAddresses, listLinks } from "#netlink/links.ts";
import { addRoute, deleteRoute, type KernelRoute, listRoutes } from "#netlink/routes.ts";
import { planDefaultRoute, type RouteEdit } from "./plan.ts";
import { RouteError } from "./route-error.ts";
import type { RoutedAttachment } from "./route-state.ts";
import { type DefaultRoutesAfter, routesAfter } from "./routes-after.ts";

/** A sandbox with its attachments, and its kernel. */
export interface DefaultRouteRequest {
  readonly netns: string;
  readonly attachments: readonly RoutedAttachment[];
  readonly transport: NetlinkTransport;
}

/**
 * Gives the pod's default routes to the attachments that request them ({@link planDefaultRoute}),
 * and returns each attachment's default routes by interface name. Without such a request the kernel
 * is not queried. On failure the routes are as before.
 * @throws RouteError 100 when the request cannot be met, before any change; 5 when the kernel
 * refuses
 */
export async function applyDefaultRoute(
  request: DefaultRouteRequest,
): Promise<ReadonlyMap<string, DefaultRoutesAfter>> {
  const { netns, attachments, transport } = request;
  if (attachments.every(({ requested }) => requested === undefined)) return new Map();
  const links = await listLinks(transport, netns);
  const addresses = await listAddresses(transport, netns);
  const routes = await listAllRoutes(transport, netns);
  const { edits, families } = planDefaultRoute({ links, addresses, routes }, attachments);
  if (edits.length === 0) return routesAfter({ routes, links, families }, attachments);
  await carryOut(edits, { ...request, links });
  const after = await listAllRoutes(transport, netns);
  return routesAfter({ routes: after, links, families }, attachments);
}

async function listAllRoutes(transport: NetlinkTransport, netns: string): Promise<KernelRoute[]> {
  const v4 = await listRoutes(transport, netns, 4);
  return [...v4, ...(await listRoutes(transport, netns, 6))];
}

interface EditContext {
  readonly netns: string;
  readonly transport: NetlinkTransport;
  readonly links: readonly Link[];
}

/** Sends all edits in one datagram: the kernel tries each one even if an earlier one failed. */
async function carryOut(edits: readonly RouteEdit[], context: EditContext): Promise<void> {
  let outcomes: (string | undefined)[];
  try {
    outcomes = await execute(context.transport, context.netns, edits.map(editRequest));
  } catch (cause) {
    await restore(edits, context).catch(() => undefined);
    throw cause;
  }
  const failed = edits.findIndex(({ op }, i) => !isSuccess(op, outcomes[i]));
  const edit = edits[failed];
  if (edit === undefined) return;
  const done = edits.filter((_, i) => outcomes[i] === undefined);
  const reason = `${outcomes[failed]}${await restoreNote(done, context)}`;
  throw new RouteError(`cannot ${describe(edit, context.links)}: ${reason}`, {
    errno: outcomes[failed] ?? "",
  });
}

/** Removing a route that is gone succeeds. */
function isSuccess(op: RouteEdit["op"], errno: string | undefined): boolean {
  return errno === undefined || (op === "del" && errno === "ESRCH");
}

/** Equivalent to: `ip route add default …` (or `append`, to restore), `ip route del default …`. */
function editRequest({ op, route, append }: RouteEdit): Request {
  return op === "del" ? deleteRoute(route) : addRoute(route, { append: append === true });
}

/** Removes what was added, then restores what was removed, in its order. @throws RouteError */
async function restore(done: readonly RouteEdit[], context: EditContext): Promise<void> {
  const added = done.filter(({ op }) => op === "add").toReversed();
  const removed = done.filter(({ op }) => op === "del");
  const edits: RouteEdit[] = [
    ...added.map(({ route }) => ({ op: "del", route }) as const),
    ...removed.map(({ route }) => ({ op: "add", route, append: true }) as const),
  ];
  if (edits.length === 0) return;
  const outcomes = await execute(context.transport, context.netns, edits.map(editRequest));
  const failed = edits.findIndex(
    ({ op }, i) => !isSuccess(op, outcomes[i]) && outcomes[i] !== "EEXIST",
  );
  const edit = edits[failed];
  if (edit !== undefined)
    throw new RouteError(`cannot ${describe(edit, context.links)}: ${outcomes[failed]}`);
}

async function restoreNote(done: readonly RouteEdit[], context: EditContext): Promise<string> {
  try {
    await restore(done, context);
    return "";
  } catch (error) {
    return `; and the routes could not be restored: ${errorMessage(error)}`;
  }
}

function describe({ op, route }: RouteEdit, links: readonly Link[]): string {
  const hops = route.hops.map(({ ifIndex, gateway }) => {
    const name = links.find(({ index }) => index === ifIndex)?.name ?? `#${ifIndex}`;
    return gateway === undefined ? `dev ${name}` : `via ${gateway} dev ${name}`;
  });
  const verb = op === "add" ? "add" : "remove";
  return `${verb} the IPv${route.family} default route ${hops.join(", ")}`;
}
